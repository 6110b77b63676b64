"""Functions and classes that a setting names: "module:name", "path/to/file.py:name", or an entry point's name.

A name in a file or a module is importable where it is used: on the worker, or in the process of the command.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

NAME = re.compile(r"[\w.]+:[\w.]+|[^,]+\.py:[\w.]+|[\w.-]+")
"""The form of such a name; a file's path has no comma, which separates names in a list."""


def absolute(name: str) -> str:
    """The name, with the whole path of a file: a worker may have another working directory."""
    file, colon, path = name.rpartition(":")
    return f"{Path(file).resolve()}{colon}{path}" if file.endswith(".py") else name


def load_named(name: str, group: str) -> Any:
    """What `name` names; without a colon it is an entry point of `group`.

    Raises: LookupError, AttributeError, OSError, and whatever the module raises while it is imported.
    """
    if ":" not in name:
        for entry in metadata.entry_points(group=group, name=name):
            return entry.load()
        raise LookupError(f"there is no entry point of this name in the group {group}; or write module:name")
    module, _, path = name.rpartition(":")
    value: Any = _import_file(Path(module)) if module.endswith(".py") else importlib.import_module(module)
    for part in path.split("."):
        value = getattr(value, part)
    return value


def source_identity(function: Callable[..., Any]) -> str:
    """The SHA-256 of the file that defines the function; of its name where there is no such file."""
    try:
        source = Path(inspect.getsourcefile(inspect.unwrap(function)) or "").read_bytes()
    except (TypeError, OSError):
        source = (
            f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', repr(type(function)))}".encode()
        )
    return hashlib.sha256(source).hexdigest()


def _import_file(path: Path) -> ModuleType:
    """The module in a file, under a name of its own: two files may have the same stem.  A file is run once a process.

    Raises: OSError for a file that cannot be read; ImportError.
    """
    path = path.resolve()
    path.open("rb").close()
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
