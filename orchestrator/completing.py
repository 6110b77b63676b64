"""What a shell offers when a person presses Tab: commands, options, runs, settings and their values.

The script of `orchestrator completion` has the shell call `orchestrator` with `_ARGCOMPLETE` and the line typed so far
in the environment; argcomplete parses that line and prints what fits.  Nothing else of the command runs.
"""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

QUEUES = ("gpu", "openai", "cpu")


def is_asked(environment: Mapping[str, str]) -> bool:
    """Whether a shell has called this process to complete a line."""
    return "_ARGCOMPLETE" in environment


def answer_shell(commands: Mapping[str, str]) -> None:
    """Print what fits the line in the environment, and end the process.  `commands` has a line about each."""
    import argcomplete
    from argcomplete.lexers import split_line

    *_, words, _ = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))
    parser = completing_parser(commands, words[1] if len(words) > 1 else "")
    argcomplete.autocomplete(parser, always_complete_options="long")


def completing_parser(commands: Mapping[str, str], typed: str) -> argparse.ArgumentParser:
    """All commands; the options are only those of the command that is `typed`, since only its module is imported."""
    parser = argparse.ArgumentParser(prog="orchestrator")
    known = parser.add_subparsers()
    for name, text in commands.items():
        parents = [importlib.import_module(f"orchestrator.commands.{name}").make_parser()] if name == typed else []
        known.add_parser(name, help=text, parents=parents, add_help=not parents)
    return parser


def with_completer(action: argparse.Action, complete: Any) -> None:
    """Have a shell offer what `complete(prefix)` returns as a value of this argument."""
    setattr(action, "completer", complete)  # noqa: B010  # where argcomplete looks for it


def complete_run(prefix: str, **_: Any) -> Iterable[str]:
    """Output folders of runs: those under outputs/, or under the folder that is typed."""
    folder = Path(prefix if prefix.endswith("/") else os.path.dirname(prefix)) if "/" in prefix else Path("outputs")
    return sorted(str(path.parent) for path in folder.glob("**/run.json"))


def complete_setting(prefix: str, **_: Any) -> Iterable[str]:
    """NAME= of every option; after the equals sign its values, where it has only some."""
    from orchestrator.settings.options import options

    name, equals, _value = prefix.partition("=")
    if not equals:
        return [f"{option.name}=" for option in options()]
    kinds = {option.name: option.kind for option in options()}
    kind = kinds.get(name.removeprefix("CONFIG_"))
    values = ("y", "n") if kind is bool else [value for value in get_args(kind) if isinstance(value, str)]
    return [f"{name}={value}" for value in values]


def complete_queue(prefix: str, **_: Any) -> Iterable[str]:
    """The queues; workers are known to their farm alone."""
    return QUEUES
