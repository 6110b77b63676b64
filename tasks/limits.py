"""The limits of what comes from outside: one table, with units.

A limit is checked where the data enter, and what is beyond it is refused with a message that names the limit.  They are
far above what a run needs, and far below what would exhaust a process.  docs/limits.md lists them.
"""

from __future__ import annotations

MIB = 2**20

# Replies over HTTP, bytes of the body.
REPLY_BYTES = 1 * MIB
"""A reply without the tokens that a model wrote: a report, a list of models, an error."""
MODELS_BYTES = 16 * MIB
"""An endpoint's list of models; a router of many providers lists hundreds."""
REPLY_BYTES_PER_TOKEN = 256
"""Of a generated token in JSON: its text, escaped, and its id.  Most have 5 to 20."""

# What the reflector writes, in characters.
SCRATCHPAD_CHARACTERS = 4_000
"""Of a scratchpad that is inherited; the prompts state it, and of a longer one the last lines are kept."""
OVERLONG_SCRATCHPAD_CHARACTERS = 100_000
"""Of a scratchpad that is cut at all: an endpoint that returns a longer one does not work as it should."""
LOGGED_CHARACTERS = 1_000_000
"""Of each part of a logged prompt."""

# Vectors.
LARGEST_DELTA = 1_000.0
"""Logits, of either sign: beyond it a token is forced or forbidden anyway, and float16 overflows."""


def reply_bytes(tokens: int) -> int:
    """The most bytes of a reply with so many generated tokens."""
    return REPLY_BYTES + REPLY_BYTES_PER_TOKEN * tokens
