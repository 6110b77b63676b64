"""Functions and classes that a setting names: "module:name", "path/to/file.py:name", or an entry point's name.

A name in a file or a module is importable where it is used: on the worker, or in the process of the command.
`ChildFunction` calls such a function in a process of its own, so that the worker goes on whatever it does.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from tasks.common.child import Child, pipe_to_parent, send_line
from tasks.common.process import has_ended, wait_ended
from tasks.common.text import first_line

NAME = re.compile(r"[\w.]+:[\w.]+|[^,]+\.py:[\w.]+|[\w.-]+")
"""The form of such a name; a file's path has no comma, which separates names in a list."""


def absolute(name: str) -> str:
    """The name, with the whole path of a file or of a module here: a worker may have another working directory."""
    file, colon, path = name.rpartition(":")
    here = f"{file.replace('.', '/')}.py"
    # A console script has no folder of its own on sys.path.
    if all(map(str.isidentifier, file.split("."))) and Path(here).is_file():
        file = here
    return f"{Path(file).resolve()}{colon}{path}" if file.endswith(".py") else name


def load_named(name: str, group: str) -> Any:
    """What `name` names; without a colon it is an entry point of `group`.  Raises what the module's import raises."""
    if ":" not in name:
        for entry in metadata.entry_points(group=group, name=name):
            return entry.load()
        raise LookupError(f"there is no entry point of this name in the group {group}; or write module:name")
    module, _, path = absolute(name).rpartition(":")
    value: Any = _import_file(Path(module)) if module.endswith(".py") else importlib.import_module(module)
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _import_file(path: Path) -> ModuleType:
    """The module in a file, under a name of its own: two files may have one stem.  It is run once a process."""
    path = path.resolve()
    path.open("rb").close()
    root = path.parent
    while (root / "__init__.py").is_file():  # it may import what lies beside it, or beside its package
        root = root.parent
    if str(root) not in sys.path:
        sys.path.append(str(root))
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    module.__package__ = ".".join(path.parent.relative_to(root).parts)  # for relative imports
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


# In a process of its own.

CALL_LIMIT_S = 300.0
MOST_CHILDREN = 4
# Linux ends a child when the thread that has started it ends: this thread ends with the process.
_starter = ThreadPoolExecutor(1, thread_name_prefix="child-functions")


class ChildFunctionError(Exception):
    """The function cannot be loaded, failed, or its process ended.  The message is one line without its name."""


class ChildFunction:
    """The function of this name.  Threads may call it; each call has a process, of `MOST_CHILDREN` at most.

    A function that ends its process or runs too long fails that call; the next one starts a new process.  `identity` is
    of the source of its module.
    Raises: ChildFunctionError when it cannot be loaded, or does not take as many arguments as `parameters`.
    """

    def __init__(self, name: str, group: str, parameters: Sequence[str], limit_s: float = CALL_LIMIT_S) -> None:
        self._arguments, self._limit_s = (name, group, *parameters), limit_s
        self._idle: queue.SimpleQueue[Child] = queue.SimpleQueue()
        self._free = threading.BoundedSemaphore(MOST_CHILDREN)
        child, self.identity = self._start()
        self._idle.put(child)
        atexit.register(self.close)

    def __call__(self, *arguments: Any) -> Any:
        """What the function returns, as JSON has it.  Raises: ChildFunctionError."""
        with self._free:
            child = self._child()
            with suppress(OSError):  # it has ended: the missing reply says how
                child.send(arguments)
            problem, value = self._reply(child)
            self._idle.put(child)
        if problem:
            raise ChildFunctionError(problem)
        return value

    def close(self) -> None:
        """End the idle processes."""
        while not self._idle.empty():
            self._idle.get().close()

    def _child(self) -> Child:
        with suppress(queue.Empty):
            child = self._idle.get_nowait()
            if not has_ended(child.process):
                return child
            child.close()
        child, identity = self._start()
        if identity != self.identity:
            child.close()
            raise ChildFunctionError("its source has changed since it was loaded; retry, or start the worker again")
        return child

    def _start(self) -> tuple[Child, str]:
        child = _starter.submit(
            Child, __name__, self._arguments, stdin=subprocess.DEVNULL, stdout=sys.__stderr__
        ).result()
        problem, identity = self._reply(child)
        if problem:
            child.close()
            raise ChildFunctionError(problem)
        return child, identity

    def _reply(self, child: Child) -> tuple[str, Any]:
        """What is wrong, or "", and a value; of a child that does not reply, nothing is left."""
        deadline = time.monotonic() + self._limit_s

        def check() -> None:
            if time.monotonic() > deadline:
                raise ChildFunctionError(f"it did not return within {self._limit_s:g} s")

        try:
            reply = child.receive(check)
        except BaseException:
            child.close()
            raise
        if reply is None:
            wait_ended(child.process, 5)
            code = child.close()
            killed = f"its process was killed by signal {-code}"
            raise ChildFunctionError(killed if code < 0 else f"it ended its process with status {code}")
        problem, value = reply
        return problem, value


def main() -> None:
    """The child: load the function, say so, and answer calls until the parent closes the pipe."""
    pipe, (name, group, *parameters), process = pipe_to_parent(), sys.argv[1:], os.getpid()
    try:
        function = _load(name, group, parameters)
        reply: list[Any] = ["", _identity(function, name)]
    except BaseException as error:  # a user's module may raise whatever it likes while it is imported
        function, reply = max, [first_line(error), ""]
    while os.getpid() == process:  # the function may have forked, and this may be the copy
        send_line(pipe, reply)
        if not (line := pipe.readline()):
            break
        try:
            reply = ["", _plain(function(*json.loads(line)))]
        except BaseException as error:  # sys.exit, GeneratorExit
            frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename != __file__]
            where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
            reply = [f"{type(error).__name__}: {first_line(error)}{where}", None]
    os._exit(0)  # whatever threads it has left


def _load(name: str, group: str, parameters: list[str]) -> Callable[..., Any]:
    function: Callable[..., Any] = load_named(name, group)
    if not callable(function):
        raise TypeError("it is no function")
    try:
        inspect.signature(function).bind(*parameters)
    except TypeError as error:
        raise TypeError(f"it must take ({', '.join(parameters)}): {error}") from error
    except ValueError:  # written in C: its first call will show
        pass
    return function


def _plain(value: Any) -> Any:
    """A value that JSON can hold; numpy's numbers and truth values as Python's."""
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    kind = type(value)
    if kind.__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    raise TypeError(f"it returned a {module}{kind.__name__}")


def _identity(function: Callable[..., Any], name: str) -> str:
    """The SHA-256 of the files that define the function, and that `name` names: it may be wrapped by another's."""
    module = name.rpartition(":")[0]
    named = module if module.endswith(".py") else getattr(sys.modules.get(module), "__file__", None)
    try:
        source = Path(inspect.getsourcefile(inspect.unwrap(function)) or "").read_bytes()
    except (TypeError, OSError):  # written in C, or an instance
        qualified = getattr(function, "__qualname__", repr(type(function)))
        source = f"{getattr(function, '__module__', '')}:{qualified}".encode()
    wrapping = Path(named).read_bytes() if named and Path(named).is_file() else b""
    return hashlib.sha256(hashlib.sha256(source).hexdigest().encode() + wrapping).hexdigest()


if __name__ == "__main__":
    main()
