"""The side that a text takes: yes or no."""

from __future__ import annotations

import re
from typing import Literal

_OPENING = re.compile(r"[\W_]*(yes|no)(?![\w'’])(?!\.\s*\d)", re.IGNORECASE)


def polarity(text: str) -> Literal["yes", "no"] | None:
    """The side that a text takes with its first word, or None where it begins with neither yes nor no."""
    found = _OPENING.match(text)
    if found is None:
        return None
    return "yes" if found[1].lower() == "yes" else "no"
