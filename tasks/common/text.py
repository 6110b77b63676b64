"""Texts: untrusted ones on a terminal and in prompts, the lengths of prompts, and templates."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping

LONGEST_QUOTE = 80  # characters of a value in an error message
_ACTING = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # Unicode categories


def escape_control(text: str, keep_lines: bool = False) -> str:
    """`text` with a Python escape, as in `\\x1b[31m`, for each character that could act on a terminal.

    Tabs become spaces, and so do line ends unless `keep_lines` is true.
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
    try:
        text = str(error).strip()
    except Exception:  # of a user's own class
        text = ""
    return (text.splitlines() or [type(error).__name__])[0][:most]


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
    """About how many tokens `text` has, for limits that are kept before the endpoint counts."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


class PromptTooLong(Exception):
    """The prompt does not fit the model's context or the endpoint's tokens a minute.  Nothing was sent."""


def missing_placeholders(template: str, names: Iterable[str]) -> list[str]:
    return [place for name in names if (place := f"{{{name}}}") not in template]


def fill(template: str, values: Mapping[str, str]) -> str:
    """`template` with each `{name}` replaced, in one pass: braces inside a value stay as they are."""
    if missing := missing_placeholders(template, values):
        raise KeyError(f"the template has no placeholder for {', '.join(missing)}")
    places = re.compile("|".join(re.escape(f"{{{name}}}") for name in values))
    return places.sub(lambda found: values[found[0][1:-1]], template)


# Untrusted text in prompts: it cannot be read as part of the prompt.
#
# A model's answer or scratchpad may contain anything, also lines that look like the prompt's headings.  It is inserted
# as JSON, one record a line, or as a quotation with ">" before each line: no line of either begins with "#".
#
# A server that reads a prompt for an open model may take `<|im_end|>` for the end of the message, wherever it stands.
# Which texts its model has for that is not known here, so the usual forms are broken up: in JSON by an escape, which
# says the same, elsewhere by a space.

SCRATCHPAD_CHARACTERS = 4_000  # of one that is inherited; the prompts state it, and the last lines are kept
EMPTY = "(empty)"
# Python's and Unicode's line ends that JSON leaves as they are.
_LINE_ENDS = re.compile("[\x85\u2028\u2029\x7f]")
# The first character of a control token: <|any|> (also in DeepSeek's wide letters), Gemma's, Llama's and Mistral's.
_CONTROL = re.compile(
    r"<(?=[|｜][^|｜<>\s]{1,64}[|｜]>|/?s>|(?:bos|eos|pad|start_of_turn|end_of_turn|start_of_image)>|</?SYS>>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CALLS|IMG)\])"
)


def normalize_lines(text: str) -> str:
    """`text` with "\\n" as its only line end, none at its end, and no lone surrogates, which no store can encode."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return "\n".join(whole.splitlines()).rstrip("\n")


def limit_scratchpad(scratchpad: str) -> str:
    """The last lines of a scratchpad that are at most `SCRATCHPAD_CHARACTERS` long; of one longer line its end."""
    if len(scratchpad) <= SCRATCHPAD_CHARACTERS:
        return scratchpad
    end = scratchpad[-SCRATCHPAD_CHARACTERS:]
    begins_with_a_line = scratchpad[-SCRATCHPAD_CHARACTERS - 1] == "\n"
    return end if begins_with_a_line or "\n" not in end else end.partition("\n")[2]


def written_scratchpad(text: str) -> str:
    """A scratchpad as the reflector wrote it, with plain line ends and cut to its limit."""
    return limit_scratchpad(normalize_lines(text))


def quote_lines(text: str) -> str:
    """`text` as a quotation, "> " before each line; `EMPTY` for nothing."""
    if not text.strip():
        return EMPTY
    return "\n".join(f"> {line}" for line in break_control_tokens(normalize_lines(text)).split("\n"))


def unquote_lines(quoted: str) -> str:
    """The inverse of `quote_lines`, for text of `normalize_lines` without control tokens."""
    if quoted.strip() == EMPTY:
        return ""
    return "\n".join(line.removeprefix("> ") for line in quoted.split("\n"))


def one_line(value: object) -> str:
    """JSON on a single line, for any value; not restricted to ASCII."""
    text = json.dumps(value, ensure_ascii=False)
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _LINE_ENDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def json_array(values: Iterable[object]) -> str:
    """A JSON array with one element on each line."""
    lines = [escape_in_json(one_line(value)) for value in values]
    return "[\n" + ",\n".join(lines) + "\n]" if lines else "[]"


def break_control_tokens(text: str) -> str:
    """`text` with a space inside whatever may be a control token: `< |im_end|>`."""
    return _CONTROL.sub(lambda found: f"{found[0]} ", text)


def escape_in_json(text: str) -> str:
    """JSON of the same value, in which no string contains a control token."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
