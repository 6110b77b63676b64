"""What modules import: each package only what lies below it, and nothing that is not installed."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "ops"))

from requirements import closure, name_of, read_locked, requirements  # noqa: E402

PACKAGES = ("orchestrator", "tasks", "workers")
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}
ELSEWHERE = ("orchestrator.flower_ext.", "workers.steering.plugin")
"""Modules that are imported only where an extra is installed, or in SGLang's environment."""


def imported(module: str) -> set[str]:
    """Our modules that this one imports, also in functions and for types."""
    return {name for name in names(ast.walk(ast.parse(FILES[module].read_text()))) if name in FILES} - {module}


def names(nodes: Iterator[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                yield inner if inner in FILES else node.module


def at_load(tree: ast.AST, *without: type[ast.AST]) -> Iterator[ast.AST]:
    """The nodes that run when a module is loaded, without those in nodes of these types."""
    for node in ast.iter_child_nodes(tree):
        is_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not (is_for_types or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, *without))):
            yield node
            yield from at_load(node, *without)


def test_a_package_imports_only_what_lies_below_it_and_the_orchestrator_workers_through_its_farm_alone() -> None:
    above = {"tasks": ("orchestrator", "workers"), "workers": ("orchestrator",), "orchestrator": ("workers",)}
    reached = {(module, other) for module in FILES for other in imported(module)}
    wrong = {(module, other) for module, other in reached if other.startswith(above[module.split(".")[0]])}
    # The steering package is no door to workers: an export holds a copy of it.
    doors = {pair for pair in wrong if pair[0].startswith("orchestrator.") and pair[1] == "workers.steering"}
    assert {pair for pair in wrong - doors if not pair[0].startswith("orchestrator.farm")} == set()


def test_what_make_evolve_installs_is_enough() -> None:
    """The tests run in a larger environment, in which an import of a test's library would go unnoticed."""
    known, locked = metadata.packages_distributions(), read_locked((ROOT / "constraints.txt").read_text())
    installed = set(closure(locked, requirements(["embedded"])))
    wrong = []
    for module in (module for module in FILES if not f"{module}.".startswith(ELSEWHERE)):
        loaded = names(at_load(ast.parse(FILES[module].read_text()), ast.Try))
        for name in {name.split(".")[0] for name in loaded} - {*PACKAGES} - sys.stdlib_module_names:
            if not installed & {name_of(one) for one in known.get(name, [])}:
                wrong.append(f"{module}: {name}")
    assert wrong == []
