"""The images have what they import: an image of the farm has the base dependencies of the project and no extra."""

from __future__ import annotations

import ast
import re
import sys
from importlib import metadata
from pathlib import Path

from ops.requirements import requirements

ROOT = Path(__file__).parents[2]
OTHER_EXTRAS = {"flower_ext": {"flower"}}  # by folder of orchestrator/
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
        available = installed(requirements(sorted(OTHER_EXTRAS.get(folder.name, set()))))
        missing = [
            package
            for package in imported(folder)
            if not any(owner.lower().replace("_", "-") in available for owner in owners.get(package, []))
        ]
        assert not missing, f"{folder.name} imports {missing}, and pyproject.toml has no dependency for it"
