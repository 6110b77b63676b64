"""The rule merger: the fitter parent's lines, then the other's lines on clusters that the fitter does not mention."""

from __future__ import annotations

import re
from typing import Any

from tasks.common.escaping import unquote_lines
from workers.embedded.endpoint.rules.mutation import MAX_LINES
from workers.embedded.endpoint.sections import sections

SCHEMA_NAME = "merge"
_PARENT = re.compile(r"Parent [AB] \(fitness: (.+)\)")
_CLUSTER = re.compile(r"cluster (\d+)", re.IGNORECASE)


def answer(system: str, user: str) -> dict[str, Any]:
    """The reply to `tasks.openai.merge.merge_messages`."""
    del system
    parents = [
        (float(found[1]), unquote_lines(text))
        for heading, text in sections(user)
        if (found := _PARENT.fullmatch(heading))
    ]
    if len(parents) != 2:
        raise ValueError("a merge has two parents")
    fitter, other = sorted(parents, key=lambda parent: -parent[0])  # stable: the first parent wins a tie
    return {"scratchpad": join(fitter[1], other[1])}


def join(fitter: str, other: str) -> str:
    """The lines of both, the fitter's first, each once; on a cluster that both mention, only the fitter's."""
    first = [line for line in fitter.split("\n") if line.strip()]
    mentioned = {found[1] for line in first if (found := _CLUSTER.search(line))}
    rest = [
        line
        for line in other.split("\n")
        if line.strip() and not ((found := _CLUSTER.search(line)) and found[1] in mentioned)
    ]
    # The fitter's newest lines are kept when there is no room for all.
    kept = list(dict.fromkeys(first))[-MAX_LINES:]
    return "\n".join(dict.fromkeys([*kept, *rest[: MAX_LINES - len(kept)]]))
