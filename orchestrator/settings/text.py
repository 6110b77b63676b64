r"""How the text of an option stands in a `.config`, so that a prompt never loses a newline (spec/README.md, ruling 10).

Three spellings of one string:

- meant: what the program works with; a newline is a newline.
- typed: what a person types into menuconfig, or behind `--set NAME=`; a newline is ``\n``, a backslash ``\\``.
- quoted: what stands in the file.  Kconfig puts the typed text into double quotes and a backslash before each quote
  and backslash, so its own tools write ``\\n``.  A person writes ``\n``, which those tools would read as ``n``;
  here every backslash that stands before neither a quote nor a backslash counts as one that was typed.
"""

from __future__ import annotations

import re

_TYPED_TO_MEANT = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_MEANT_TO_TYPED = {meant: "\\" + typed for typed, meant in _TYPED_TO_MEANT.items()}

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_QUOTED = re.compile(r'"((?:[^\\"]|\\.)*)"')
_STRING_ASSIGNMENT = re.compile(r'^(CONFIG_\w+=)"(.*)"[ \t]*$', re.MULTILINE)


def meant(typed: str) -> str:
    r"""The string that a person meant by `typed`; an unknown escape such as ``\d`` stays as it is."""
    return _ESCAPE.sub(lambda match: _TYPED_TO_MEANT.get(match[1], match[0]), typed)


def typed(meant: str) -> str:
    """What a person would type for `meant`: the exact inverse of `meant`, on one line."""
    return "".join(_MEANT_TO_TYPED.get(character, character) for character in meant)


def typed_from_quoted(quoted: str) -> str | None:
    """The typed text in a quoted one, or None when `quoted` is not one string in double quotes."""
    match = _QUOTED.fullmatch(quoted)
    return None if match is None else _ESCAPE.sub(r"\1", _double_lone_backslashes(match[1]))


def as_kconfig_writes(config: str) -> str:
    """The text of a whole `.config`, each of its strings quoted as Kconfig's own tools would have quoted it."""
    return _STRING_ASSIGNMENT.sub(lambda match: f'{match[1]}"{_double_lone_backslashes(match[2])}"', config)


def _double_lone_backslashes(quoted: str) -> str:
    return _ESCAPE.sub(lambda match: match[0] if match[1] in '\\"' else "\\" + match[0], quoted)
