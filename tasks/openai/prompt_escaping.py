"""How foreign text enters a prompt without becoming part of it.

A model's answer or scratchpad may hold anything, also lines that look like our headings.  Values are put in as JSON,
one record a line, or as a quotation whose every line begins with ">": neither can begin a line with "#".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

EMPTY = "(empty)"
# Python's and Unicode's line ends that JSON leaves as they are.
_LINE_ENDS = re.compile("[\x85\u2028\u2029\x7f]")


def plain(text: str) -> str:
    """`text` with "\\n" as its only line end, none at its end, and without lone surrogates, which no store can encode.

    A text that is plain stays as it is.
    """
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return "\n".join(whole.splitlines()).rstrip("\n")


def quote(text: str) -> str:
    """`text` as a quotation, "> " before each line; `EMPTY` for nothing."""
    if not text.strip():
        return EMPTY
    return "\n".join(f"> {line}" for line in plain(text).split("\n"))


def unquote(quoted: str) -> str:
    """The inverse of `quote` for text that is `plain`."""
    if quoted.strip() == EMPTY:
        return ""
    return "\n".join(line.removeprefix("> ") for line in quoted.split("\n"))


def one_line(value: object) -> str:
    """JSON on a single line, whatever it holds; readable, not ASCII only."""
    text = json.dumps(value, ensure_ascii=False)
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _LINE_ENDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def records(values: Iterable[object]) -> str:
    """A JSON array, one element a line, so that people can read it too."""
    lines = [one_line(value) for value in values]
    return "[\n" + ",\n".join(lines) + "\n]" if lines else "[]"
