"""A judge that is defined in a script or a notebook, as a module of its own that a worker can import.

    CURRENCY = re.compile("[$€]")

    def same_amount(question: str, gold: str, answer: str) -> bool:
        return CURRENCY.sub("", gold) in answer

A worker is another process and cannot import a script or a notebook.  So the function's source is written down with
what it uses: modules, functions and classes of modules, functions of the same script, patterns and plain values.
"""

from __future__ import annotations

import ast
import dis
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

HEAD = '"""A judge, as it was defined when its run was started."""\n\nfrom __future__ import annotations\n'


class JudgeSourceError(Exception):
    """The function cannot be written down.  The message is one line and says what to do."""


def judge_module(function: Callable[..., Any]) -> str:
    """The text of a module that defines `function`.  Raises: JudgeSourceError."""
    parts: dict[str, str] = {}
    name = _add_function(function, parts)
    if name != function.__name__:
        raise JudgeSourceError(f"the judge {function.__name__!r} is a {name}: give it a name with def")
    return "\n\n".join([HEAD, *parts.values()]) + "\n"


def _add_function(function: Callable[..., Any], parts: dict[str, str]) -> str:
    """Add the function after all that it uses; `parts` are texts by name.  Returns its name."""
    name = getattr(function, "__name__", type(function).__name__)
    if not isinstance(function, FunctionType):
        raise JudgeSourceError(f"{name!r} is no function with a source; put the judge into a module, and name it")
    if name == "<lambda>":
        raise JudgeSourceError("a lambda has no name; define the judge with def")
    if function.__closure__:
        used = ", ".join(function.__code__.co_freevars)
        raise JudgeSourceError(f"{name} uses {used} of the function around it; define it at the top level")
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise JudgeSourceError(f"the source of {name} cannot be read; put it into a module") from None
    parts[name] = ""  # before what it uses: two functions may call each other
    for used in _names_used(function, source):
        if used not in parts and used in function.__globals__:
            _add_value(used, function.__globals__[used], function, parts)
    parts[name] = parts.pop(name) or source.rstrip()
    return name


def _add_value(name: str, value: Any, user: FunctionType, parts: dict[str, str]) -> None:
    if isinstance(value, ModuleType):
        parts[name] = f"import {value.__name__} as {name}"
    elif isinstance(value, FunctionType) and value.__globals__ is user.__globals__:
        if _add_function(value, parts) != name:
            parts[name] = f"{name} = {value.__name__}"
    elif _is_importable(value):
        parts[name] = f"from {value.__module__} import {value.__qualname__} as {name}"
    elif isinstance(value, re.Pattern):
        parts[name] = f"import re\n{name} = re.compile({value.pattern!r}, {value.flags})"
    elif _is_plain(value):
        parts[name] = f"{name} = {value!r}"
    else:
        kind = type(value).__name__
        raise JudgeSourceError(f"{user.__name__} uses {name}, a {kind}, which cannot be written into a file of its "
                               "own; make it inside the function, or put the judge into a module")  # fmt: skip


def _names_used(function: FunctionType, source: str) -> list[str]:
    """Global names that the function's code loads, and those of its defaults and decorators."""
    [definition] = ast.parse(source).body[:1]
    names = list(_loaded(function.__code__))
    if isinstance(definition, ast.FunctionDef):
        arguments = definition.args
        around = [*definition.decorator_list, *arguments.defaults, *filter(None, arguments.kw_defaults)]
        names += [node.id for part in around for node in ast.walk(part) if isinstance(node, ast.Name)]
    return list(dict.fromkeys(names))


def _loaded(code: CodeType) -> Iterator[str]:
    yield from (one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _loaded(inner)


def _is_importable(value: Any) -> bool:
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "<")
    return module not in (None, "__main__", "builtins") and name.isidentifier()


def _is_plain(value: Any) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False
