"""How the text of an option stands in a `.config`, so that a prompt never loses a newline (spec/README.md, ruling 10).

Three spellings of one string:

- meant: what the program works with; a newline is a newline.
- typed: what a person types into menuconfig, or behind `--set NAME=`; a newline is ``\n``, a backslash ``\\``.
- quoted: what stands in the file.  Kconfig puts the typed text into double quotes and a backslash before each quote
  and backslash, so its own tools write ``\\n``.  A person writes ``\n``, which those tools would read as ``n``;
  here every backslash that stands before neither a quote nor a backslash counts as one that was typed.

Kconfig's own parser, kept from turning a hand-written ``\n`` into an ``n``.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import kconfiglib

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


PREFIX = "CONFIG_"


def kconfig_file() -> Path:
    """Where Kconfig lies: the root of a checkout, or this folder when installed from a wheel."""
    beside = Path(__file__).parent / "Kconfig"
    return beside if beside.is_file() else Path(__file__).parents[2] / "Kconfig"


class Kconfig(kconfiglib.Kconfig):  # type: ignore[misc]  # kconfiglib has no types
    """`kconfiglib.Kconfig` over this project's options; reads both ``\n`` and ``\\n`` in a string as ``\n``."""

    def __init__(self, warn: bool = False) -> None:
        super().__init__(str(kconfig_file()), warn=warn)

    def load_config(self, filename: str | None = None, replace: bool = True, verbose: object = None) -> str:
        """As in kconfiglib; also where menuconfig's own dialogue loads a file.

        Raises: OSError when the file cannot be read, kconfiglib.KconfigError when it is not UTF-8.
        """
        path = Path(filename or kconfiglib.standard_config_filename())
        if filename is None and not path.exists():
            return str(super().load_config(None, replace))
        try:
            written = path.read_text("utf-8-sig")
        except UnicodeDecodeError as error:
            raise kconfiglib.KconfigError(f"{path} is not UTF-8 text: {error}") from error
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, path.name)
            Path(copy).write_text(as_kconfig_writes(written), "utf-8")
            return str(super().load_config(copy, replace)).replace(copy, str(path))
