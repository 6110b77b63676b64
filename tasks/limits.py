"""The limits of what comes from outside: one table, with units.

A limit is checked where the data enter, and what is beyond it is refused with a message that names the limit.  They are
far above what a run needs, and far below what would exhaust a process.
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
LOGGED_CHARACTERS = 1_000_000
"""Of each part of a logged prompt."""

# Questions and rows to judge, bytes of UTF-8.
QUESTION_BYTES = 1_000_000
PAGE_BYTES = 1_000_000
"""Of one page of a document, and of the context of one row that has no pages."""
CONTEXT_BYTES = 4_000_000
"""Of all pages of one question together."""
GOLD_BYTES = 20_000
"""Of a right answer."""
ANSWER_BYTES = 4_000_000
"""Of an answer to be judged: more than the tokens of the longest one allowed."""
NAME_BYTES = 1_000
"""Of an id and of the name of a split or a document."""
ROW_BYTES = 16 * MIB
"""Of one line of a file of rows."""
ROWS = 1_000_000
"""Of one file or folder."""
REPORTED_FAULTS = 50
"""That one error lists; it says how many more there are."""

# Files that are read whole, bytes.
SETTINGS_BYTES = 1 * MIB
"""A `.config`, or a document in YAML or JSON."""
OPTION_CHARACTERS = 100_000
"""The value of one option: a prompt, a template, a command."""
DELTAS_BYTES = 16 * MIB
"""A file of deltas: one vector, or a population."""
SECRET_BYTES = 65_536
"""A file with a key or a password."""
COLLECTED_BYTES = 1024 * MIB
"""The output of a collection."""
CHECKPOINT_BYTES = 64 * MIB
"""How far a training is."""

# What a judge of the user's own returns, characters.
REASONING_CHARACTERS = 20_000

# Vectors.
LARGEST_DELTA = 1_000.0
"""Logits, of either sign: beyond it a token is forced or forbidden anyway, and float16 overflows."""


def reply_bytes(tokens: int) -> int:
    """The most bytes of a reply with so many generated tokens."""
    return REPLY_BYTES + REPLY_BYTES_PER_TOKEN * tokens
