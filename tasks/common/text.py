"""Texts: untrusted ones that are displayed or logged, the lengths of prompts, and templates.

Nothing that is displayed can act on a terminal, and none of it is long.  In a template each `{name}` that has a value
is replaced; prompts often contain JSON, so all other braces stay and need no escape.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping

LONGEST_QUOTE = 80  # characters of a value in an error message
_ACTING = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # Unicode categories


def escape_control(text: str, keep_lines: bool = False) -> str:
    """`text` with a Python escape, as in `\\x1b[31m`, for each character that could act on a terminal.

    These are control characters, direction overrides, zero-width characters and lone surrogates.  Tabs become spaces.
    Line ends stay when `keep_lines` is true and become spaces otherwise.
    """
    line_end = "\n" if keep_lines else " "
    text = text.replace("\r\n", "\n").replace("\n", line_end).replace("\t", "    ")
    return "".join(
        character
        if character == line_end or unicodedata.category(character) not in _ACTING
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def shorten(text: str, longest: int = LONGEST_QUOTE) -> str:
    """`text`, or its beginning and three points where it has more than `longest` characters."""
    return text if len(text) <= longest else text[: longest - 3] + "..."


def quote(value: object) -> str:
    """A value in an error message: as Python writes it, on one line, cut to `LONGEST_QUOTE` characters."""
    if isinstance(value, str):
        return repr(shorten(value))
    if isinstance(value, list | tuple | dict):
        return f"a {'dict' if isinstance(value, dict) else 'list'} of {len(value)}"
    return shorten(escape_control(repr(value)))


def first_line(error: BaseException, most: int = 500) -> str:
    """The first line of an error's text, `most` characters at most; the name of its class where it has no text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:most]


SHORTEST = 80  # characters of a text that are always kept


def cut_middle(text: str, length: int) -> str:
    """`text` with its middle replaced by a note, where it is longer than `length` characters; about that long then."""
    if len(text) <= length:
        return text
    half = length // 2
    return f"{text[:half]} [... {len(text) - 2 * half} characters cut ...] {text[len(text) - half :]}"


def largest_length(longest: int, fits: Callable[[int], bool]) -> int:
    """The largest length from `SHORTEST` to `longest` that fits, or `SHORTEST` where none does."""
    low, high = SHORTEST, max(SHORTEST, longest)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def smallest_limit(*limits: int) -> int:
    """Of limits of which 0 is none, the one that holds."""
    return min((limit for limit in limits if limit), default=0)


def estimate_tokens(text: str) -> int:
    """About how many tokens `text` has: one for every four bytes of UTF-8, rounded up.

    For limits that are kept before the endpoint counts; never for fitness.
    """
    return -(-len(text.encode("utf-8", "replace")) // 4)


class PromptTooLong(Exception):
    """The prompt does not fit the model's context or the endpoint's tokens a minute.  Nothing was sent."""


def missing_placeholders(template: str, names: Iterable[str]) -> list[str]:
    """The placeholders, as `{name}`, that the template lacks."""
    return [place for name in names if (place := f"{{{name}}}") not in template]


def fill(template: str, values: Mapping[str, str]) -> str:
    """`template` with each `{name}` replaced, in one pass: braces inside a value stay as they are."""
    if missing := missing_placeholders(template, values):
        raise KeyError(f"the template has no placeholder for {', '.join(missing)}")
    places = re.compile("|".join(re.escape(f"{{{name}}}") for name in values))
    return places.sub(lambda found: values[found[0][1:-1]], template)
