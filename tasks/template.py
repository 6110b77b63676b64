"""Templates of prompts: each `{name}` that has a value is replaced; all other braces stay.

Prompts often contain JSON, so braces have no other meaning and need no escape.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping


def missing_placeholders(template: str, names: Iterable[str]) -> list[str]:
    """The placeholders, as `{name}`, that the template lacks."""
    return [place for name in names if (place := f"{{{name}}}") not in template]


def fill(template: str, values: Mapping[str, str]) -> str:
    """`template` with each `{name}` replaced, in one pass: braces inside a value stay as they are."""
    if missing := missing_placeholders(template, values):
        raise KeyError(f"the template has no placeholder for {', '.join(missing)}")
    places = re.compile("|".join(re.escape(f"{{{name}}}") for name in values))
    return places.sub(lambda found: values[found[0][1:-1]], template)
