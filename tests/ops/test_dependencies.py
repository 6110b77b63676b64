"""What `make evolve` installs is enough: a module imports only what the core and `embedded` dependencies bring.

The tests run in a larger environment, in which an import of a test's library would go unnoticed.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "ops"))

from requirements import closure, name_of, read_locked, requirements  # noqa: E402

PACKAGES = ("orchestrator", "tasks", "workers")
OTHERS = ("orchestrator/flower_ext/", "workers/steering/plugin")
"""Modules that are imported only where an extra is installed, or in SGLang's environment."""


def imported(body: list[ast.stmt]) -> Iterator[str]:
    """The names that are imported with a module: not in functions, for types alone, or where a failure is handled."""
    for node in body:
        match node:
            case ast.Import():
                yield from (alias.name.split(".")[0] for alias in node.names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.split(".")[0]
            case ast.If() if "TYPE_CHECKING" not in ast.unparse(node.test):
                yield from imported([*node.body, *node.orelse])
            case ast.ClassDef() | ast.With():
                yield from imported(node.body)


def test_a_module_imports_what_is_installed_for_it() -> None:
    known, locked = metadata.packages_distributions(), read_locked((ROOT / "constraints.txt").read_text())
    installed = set(closure(locked, requirements(["embedded"])))
    wrong = []
    for path in (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))):
        file = str(path.relative_to(ROOT))
        for name in () if file.startswith(OTHERS) else set(imported(ast.parse(path.read_text()).body)):
            is_ours = name in sys.stdlib_module_names or name in PACKAGES
            if not is_ours and not installed & {name_of(one) for one in known.get(name, [])}:
                wrong.append(f"{file}: {name}")
    assert wrong == []
