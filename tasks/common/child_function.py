"""A function of the user's own, called in a process of its own: whatever it does, the worker goes on.

`ChildFunction` starts this module with the name of the function, which loads it and then answers one call
after the other, one JSON document a line.  A function that ends its process, runs too long or breaks its descriptors
fails that call; the next one starts a new process.  Calls at the same time have a process each, up to
`MOST_CHILDREN`.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import hashlib
import inspect
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

from tasks.common.named import load_named, source_identity

CALL_LIMIT_S = 300.0
MOST_CHILDREN = 4
REPLY_CHARACTERS = 1_000_000
PR_SET_PDEATHSIG = 1
# Linux signals a child when the thread that started it ends: this thread ends with the process.
_starter = ThreadPoolExecutor(1, thread_name_prefix="child-functions")


class ChildFunctionError(Exception):
    """The function cannot be loaded, failed, or its process ended.  The message is one line without its name."""


class ChildFunction:
    """The function `name`, "module:function", "file.py:function" or an entry point of `group`.

    `identity` is of the source of its module.  Threads may call it at the same time.
    Raises: ChildFunctionError when it cannot be loaded, or does not take as many arguments as `parameters`.
    """

    def __init__(self, name: str, group: str, parameters: Sequence[str], limit_s: float = CALL_LIMIT_S) -> None:
        self._arguments = [name, group, json.dumps(list(parameters))]
        self._limit_s = limit_s
        self._idle: queue.SimpleQueue[_Child] = queue.SimpleQueue()
        self._free = threading.BoundedSemaphore(MOST_CHILDREN)
        child = _Child(self._arguments, limit_s)
        self.identity = child.identity
        self._idle.put(child)
        atexit.register(self.close)

    def __call__(self, *arguments: Any) -> Any:
        """What the function returns, as JSON has it.  Raises: ChildFunctionError."""
        with self._free:
            child = self._child()
            try:
                value = child.call(arguments, self._limit_s)
            except _FunctionFailed as error:
                self._idle.put(child)
                raise ChildFunctionError(str(error)) from None
            except BaseException:
                child.close()
                raise
            self._idle.put(child)
            return value

    def close(self) -> None:
        """End the idle processes."""
        while not self._idle.empty():
            self._idle.get().close()

    def _child(self) -> _Child:
        try:
            child = self._idle.get_nowait()
            if not child.is_alive():
                child.close()
                child = _Child(self._arguments, self._limit_s)
        except queue.Empty:
            child = _Child(self._arguments, self._limit_s)
        if child.identity != self.identity:
            child.close()
            raise ChildFunctionError("its source has changed since this process loaded it; start the worker again")
        return child


class _FunctionFailed(ChildFunctionError):
    """The function raised an exception; its process goes on."""


class _Child:
    """One process.  What it writes to its standard output goes to our standard error."""

    def __init__(self, arguments: list[str], limit_s: float) -> None:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        self._process = _starter.submit(
            subprocess.Popen,
            [sys.executable, "-P", "-m", "tasks.common.child_function", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        ).result()
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self._calls = 0
        try:
            self.identity = str(self._reply(limit_s))
        except BaseException:
            self.close()
            raise

    def call(self, arguments: Sequence[Any], limit_s: float) -> Any:
        self._calls += 1
        stuck = threading.Timer(limit_s, self._kill)  # of a pipe that nobody reads
        stuck.start()
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps([self._calls, list(arguments)]) + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it has ended: the missing reply says how
        finally:
            stuck.cancel()
        return self._reply(limit_s)

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End the process and what it has started in its session.  The thread that reads closes its pipe."""
        self._kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]  # it was asked for a pipe

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as pipe, contextlib.suppress(ValueError):  # what is not UTF-8 is no reply
            while line := pipe.readline(REPLY_CHARACTERS):
                self._lines.put(line)
        self._lines.put("")

    def _reply(self, limit_s: float) -> Any:
        """The reply to the last call; lines that are none, or of an earlier call, are passed over."""
        end = time.monotonic() + limit_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise ChildFunctionError(f"it did not return within {limit_s:g} s") from None
            if not line:
                raise ChildFunctionError(_ending(self._process))
            try:
                number, problem, value = json.loads(line)
            except (ValueError, TypeError):
                continue
            if number == self._calls:
                if problem:
                    raise _FunctionFailed(str(problem))
                return value


def _ending(process: subprocess.Popen[str]) -> str:
    try:
        status = process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        return "it closed the descriptors of its process"
    return f"its process was killed by signal {-status}" if status < 0 else f"it ended its process with status {status}"


def main() -> None:
    """The child: load the function, say so, and answer calls until the parent closes the pipe."""
    name, group, parameters = sys.argv[1:]
    calls, replies = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    _end_with_the_parent()
    folder, process = os.getcwd(), os.getpid()
    try:
        function, problem = _load(name, group, json.loads(parameters)), ""
        identity = hashlib.sha256(source_identity(function).encode() + _source_of(name)).hexdigest()
    except BaseException as error:  # a user's module may raise whatever it likes while it is imported
        function, problem, identity = max, _one_line(error), ""
    if os.getpid() != process:  # the module has forked
        os._exit(0)
    _write(replies, [0, problem, identity])
    for line in calls:
        number, arguments = json.loads(line)
        reply = [number, "", None]
        try:
            reply[2] = _plain(function(*arguments))
        except BaseException as error:  # sys.exit, GeneratorExit
            reply[1] = f"{type(error).__name__}: {_one_line(error)}"
        if os.getpid() != process:  # the function has forked, and this is the copy
            os._exit(0)
        os.chdir(folder)
        _write(replies, reply)


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
    """A value that JSON can hold; numpy's numbers and truth values as Python's.  Raises: TypeError for others."""
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"it returned {_shown(value)}")


def _shown(value: Any) -> str:
    kind = type(value)
    return f"a {kind.__name__}" if kind.__module__ == "builtins" else f"a {kind.__module__}.{kind.__name__}"


def _one_line(error: BaseException) -> str:
    try:
        return (str(error).strip().splitlines() or [type(error).__name__])[0][:500]
    except Exception:
        return type(error).__name__


def _write(replies: TextIO, reply: list[Any]) -> None:
    try:
        line = json.dumps(reply)
    except ValueError as error:  # a whole number of thousands of digits
        line = json.dumps([reply[0], _one_line(error), None])
    if len(line) >= REPLY_CHARACTERS:
        line = json.dumps([reply[0], f"it returned more than {REPLY_CHARACTERS:,} characters", None])
    replies.write(line + "\n")
    replies.flush()


def _source_of(name: str) -> bytes:
    """The file that the name names: the function may be of another one, which it is wrapped by."""
    module = name.rpartition(":")[0]
    file = module if module.endswith(".py") else getattr(sys.modules.get(module), "__file__", None)
    return Path(file).read_bytes() if file and Path(file).is_file() else b""


def _end_with_the_parent() -> None:
    """End this process when its parent is gone, also in the middle of a call."""
    parent = os.getppid()
    if sys.platform == "linux":
        # The kernel's signal also ends a call that never lets another thread run.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)  # a parent is no child that can be waited for
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()
