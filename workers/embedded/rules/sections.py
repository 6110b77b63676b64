"""The sections of the project's prompts, which the rules read back.

A prompt is headings ("## ...") with a body each, up to a line of dashes.
"""

from __future__ import annotations

import json
from typing import Any


def sections(message: str) -> list[tuple[str, str]]:
    """The headings and bodies of a user message, in order. Only "\\n" ends a line: quoted texts may hold others."""
    whole = f"\n{message}\n".partition("\n---\n")[0]
    headed = (part.partition("\n") for part in whole.split("\n## ")[1:])
    return [(heading, text.strip("\n")) for heading, _, text in headed]


def section(message: str, heading: str) -> str:
    """The body below the first heading that begins with `heading`."""
    for title, text in sections(message):
        if title.startswith(heading):
            return text
    raise ValueError(f"the user message has no section {heading!r}")


def json_section(message: str, heading: str) -> Any:
    """The body as JSON."""
    return json.loads(section(message, heading))
