"""Untrusted text in prompts: it cannot be read as part of the prompt.

A model's answer or scratchpad may contain anything, also lines that look like the prompt's headings.  It is inserted
as JSON, one record a line, or as a quotation with ">" before each line: no line of either begins with "#".

A server that reads a prompt for an open model may take `<|im_end|>` for the end of the message, wherever it stands.
Which texts its model has for that is not known here, so the usual forms are broken up: in JSON by an escape, which
says the same, elsewhere by a space.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from tasks.common.validation import SCRATCHPAD_CHARACTERS

EMPTY = "(empty)"
# Python's and Unicode's line ends that JSON leaves as they are.
_LINE_ENDS = re.compile("[\x85\u2028\u2029\x7f]")
# The first character of a control token: <|any|> (also in DeepSeek's wide letters), Gemma's, Llama's and Mistral's.
_CONTROL = re.compile(
    r"<(?=[|｜][^|｜<>\s]{1,64}[|｜]>|/?s>|(?:bos|eos|pad|start_of_turn|end_of_turn|start_of_image)>|</?SYS>>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CALLS|IMG)\])"
)


def normalize_lines(text: str) -> str:
    """`text` with "\\n" as its only line end, none at its end, and without lone surrogates, which no store can encode.

    Plain text is returned as it is.
    """
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
