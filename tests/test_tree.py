"""The tree: each module has a test file in the same folder of `tests`, and names are used once.

That holds for the names of test files, and of the public functions and classes of the code."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("orchestrator", "tasks", "workers")


def modules() -> Iterator[Path]:
    """Each module, from the root of the repository, without `__init__.py` and `__main__.py`."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.name not in ("__init__.py", "__main__.py"):
                yield path.relative_to(ROOT)


def mirrored_tests(module: Path) -> list[Path]:
    """The test files of the mirrored folder that import the module or have its name in theirs."""
    dotted = ".".join(module.with_suffix("").parts)
    files = sorted((ROOT / "tests" / module.parent).glob("test_*.py"))
    return [file for file in files if dotted in imports(file) or f"_{module.stem}_" in f"{file.stem}_"]


@cache
def imports(file: Path) -> frozenset[str]:
    """The dotted names of what a file imports: modules, and names in modules."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return frozenset(found)


# Modules without a test file of their own, and the test that runs them.  The list only shrinks: an entry whose module
# is gone, or has got a test of its own, fails.
ELSEWHERE = {
    "orchestrator/cli.py": "orchestrator/commands/test_run_commands.py",
    "orchestrator/collection/runner.py": "e2e/test_collect.py",
    "orchestrator/commands/answers.py": "e2e/test_errors.py",
    "orchestrator/commands/cancel.py": "orchestrator/commands/test_run_commands.py",
    "orchestrator/commands/cluster.py": "e2e/test_cluster_from.py",
    "orchestrator/commands/completion.py": "orchestrator/test_completing.py",
    "orchestrator/commands/collect.py": "e2e/test_collect.py",
    "orchestrator/commands/common.py": "orchestrator/commands/test_run_commands.py",
    "orchestrator/commands/evolve.py": "e2e/test_same_seed.py",
    "orchestrator/commands/flower.py": "orchestrator/flower_ext/test_monitor_http.py",
    "orchestrator/commands/pause.py": "orchestrator/commands/test_farm_commands.py",
    "orchestrator/commands/resume.py": "orchestrator/commands/test_farm_commands.py",
    "orchestrator/commands/refused.py": "orchestrator/commands/test_farm_commands.py",
    "orchestrator/commands/route.py": "orchestrator/routing/test_route_settings.py",
    "orchestrator/commands/show.py": "orchestrator/report/test_shown_individual.py",
    "orchestrator/farm/workers.py": "orchestrator/commands/test_farm_commands.py",
    "orchestrator/flower_ext/server.py": "orchestrator/flower_ext/test_monitor_http.py",
    "orchestrator/flower_ext/state.py": "orchestrator/flower_ext/test_monitor_http.py",
    "orchestrator/flower_ext/views.py": "orchestrator/flower_ext/test_monitor_pages.py",
    "orchestrator/init/ways.py": "orchestrator/commands/test_init_terminal.py",
    "orchestrator/optimisers/operators.py": "e2e/test_same_seed.py",
    "orchestrator/optimisers/specification.py": "e2e/test_same_seed.py",
    "orchestrator/report/pairwise.py": "e2e/test_same_seed.py",
    "orchestrator/runs/interruption.py": "orchestrator/commands/test_run_interruption.py",
    "orchestrator/runs/runner.py": "e2e/test_same_seed.py",
    "orchestrator/signals.py": "orchestrator/runs/test_drive.py",
    "tasks/code_version.py": "orchestrator/farm/test_farm_checks.py",
    "tasks/collect/compression.py": "workers/embedded/endpoint/rules/test_rule_compression.py",
    "tasks/cpu/tokenize.py": "tasks/test_task.py",
    "tasks/die_with_parent.py": "workers/processes/test_process.py",
    "tasks/escape.py": "orchestrator/report/test_report_text.py",
    "tasks/exports.py": "orchestrator/runs/test_artifacts.py",
    "tasks/gpu/bases.py": "tasks/gpu/training/test_training_start.py",
    "tasks/gpu/evaluate.py": "tasks/gpu/training/test_training_start.py",
    "tasks/gpu/train.py": "tasks/gpu/training/test_training_start.py",
    "tasks/store/ledger.py": "tasks/openai/test_openai_budget.py",
    "tasks/store/registry.py": "orchestrator/dispatch/test_worker_availability.py",
    "workers/embedded/endpoint/app.py": "workers/embedded/endpoint/test_endpoint_server.py",
    "workers/embedded/endpoint/chat.py": "workers/embedded/endpoint/test_endpoint_server.py",
    "workers/embedded/supervisor.py": "workers/embedded/test_embedded_farm.py",
    "workers/embedded/target/app.py": "workers/embedded/target/test_target_http.py",
    "workers/metrics/builder.py": "workers/metrics/test_metrics_figures.py",
    "workers/metrics/farm.py": "workers/metrics/test_metrics_figures.py",
    "workers/sglang/engines/embedded.py": "e2e/test_same_seed.py",
    "workers/sglang/engines/sglang.py": "e2e/test_same_seed.py",
    "workers/sglang/step.py": "workers/sglang/test_target_host.py",
    "workers/steering/plugin.py": "gpu/test_steered_server.py",
}


def test_each_module_has_a_test_in_the_mirrored_folder_or_an_entry_in_the_list() -> None:
    assert {str(module) for module in modules() if not mirrored_tests(module)} == set(ELSEWHERE)
    assert [test for test in ELSEWHERE.values() if not (ROOT / "tests" / test).is_file()] == []


def test_each_folder_of_tests_mirrors_a_folder_of_the_code() -> None:
    folders = {path.parent for package in PACKAGES for path in (ROOT / "tests" / package).rglob("test_*.py")}
    assert [str(folder) for folder in folders if not (ROOT / folder.relative_to(ROOT / "tests")).is_dir()] == []


def test_each_test_file_has_a_unique_name() -> None:
    names = Counter(path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py")
    assert [name for name, count in names.items() if count > 1] == []


# Names that several modules share, because code looks for them by name.
CONVENTIONS = {
    "main": "the entry point of a process",
    "make_parser": "a command of `orchestrator`: its options",
    "run": "a command of `orchestrator`: its work",
    "answer": "a reply rule of the embedded endpoint",
}


def test_no_two_public_functions_or_classes_share_a_name() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    places[node.name].append(str(path.relative_to(ROOT)))
    public = {name: files for name, files in places.items() if not name.startswith("_") and name not in CONVENTIONS}
    assert {name: files for name, files in public.items() if len(files) > 1} == {}
    assert [name for name in CONVENTIONS if len(places[name]) < 2] == []
