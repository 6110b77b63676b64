"""Which module imports which: no circles, and each package only what lies below it."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("orchestrator", "tasks", "workers")
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}


def imported(module: str, *, everywhere: bool = False) -> set[str]:
    """Our modules that this one imports when it is loaded; `everywhere`: also in functions and for types."""
    tree = ast.parse(FILES[module].read_text())
    nodes = ast.walk(tree) if everywhere else at_load(tree)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                found.add(inner if inner in FILES else node.module)
    return {name for name in found if name in FILES} - {module}


def at_load(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when a module is loaded."""
    for node in ast.iter_child_nodes(tree):
        is_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not (is_for_types or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)):
            yield node
            yield from at_load(node)


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def room(module: str) -> str:
    """The folder of a module, of tasks without the folders within; the module itself where it is in none."""
    parts = FILES[module].relative_to(ROOT).parts[:-1]
    return ".".join(parts[:2] if parts[0] == "tasks" else parts) if len(parts) > 1 else module


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circle({module: imported(module) for module in FILES}) == []


def test_no_rooms_of_tasks_and_workers_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = defaultdict(set)
    for module in FILES:
        if not module.startswith("orchestrator"):
            graph[room(module)] |= {room(other) for other in imported(module)} - {room(module)}
    assert circle(graph) == []


@pytest.mark.parametrize(
    ("package", "others"), [("tasks", ("orchestrator", "workers")), ("workers", ("orchestrator",))]
)
def test_a_package_imports_only_what_lies_below_it(package: str, others: tuple[str, ...]) -> None:
    modules = [module for module in FILES if module.split(".")[0] == package]
    assert {
        (module, other) for module in modules for other in imported(module, everywhere=True) if other.startswith(others)
    } == set()


def test_the_orchestrator_reaches_workers_through_its_farm_alone() -> None:
    """The steering package is no door to workers: an export holds a copy of it."""
    outside = [module for module in FILES if module.startswith("orchestrator") and ".farm." not in f"{module}."]
    reached = {(module, other) for module in outside for other in imported(module, everywhere=True)}
    assert {pair for pair in reached if pair[1].startswith("workers") and pair[1] != "workers.steering"} == set()
