"""A verifier of the user's own: a Python function that gives each candidate a score and tags, and decides nothing.

    def verify(ticket: dict, candidate: dict) -> tuple[float, list[str]]

It is named by an entry point of the group `whetstone.verifiers`, or as "module:function", importable where the cpu
workers run.  `ticket` has `group_id`, `mission`, `label` and `per_image`; `candidate` has `text`, `verdict`, `reason`
and `confidence`.  It must return the same for the same values: results are kept under their content.  It runs in a
process of its own (`tasks.common.child_function`).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

from tasks.common.child_function import ChildFunction, ChildFunctionError
from tasks.guide.candidates import GuideCandidate, Ticket
from tasks.guide.jobs import VerifyInput

GROUP = "whetstone.verifiers"
PARAMETERS = ("ticket", "candidate")


@functools.cache
def load_verifier(name: str) -> ChildFunction:
    """The function of this name; `identity` is of its source: another source, another content key.

    Raises: ChildFunctionError, in one line that names it.
    """
    try:
        return ChildFunction(name, GROUP, PARAMETERS)
    except ChildFunctionError as error:
        raise ChildFunctionError(f"the verifier {name!r} cannot be loaded: {error}") from None


def verified(asked: VerifyInput) -> list[dict[str, Any]]:
    """Of each candidate {"verifier_score": float, "verifier_tags": [str]}.

    Raises: ChildFunctionError when the function fails, does not return, or returns something else.
    """
    verifier = load_verifier(asked.verifier)
    if verifier.identity != asked.identity:
        raise ChildFunctionError(
            f"the source of the verifier {asked.verifier} here is not that of the command's machine"
        )
    return [_verified(verifier, asked.verifier, asked.ticket, candidate) for candidate in asked.candidates]


def _verified(verifier: ChildFunction, name: str, ticket: Ticket, candidate: GuideCandidate) -> dict[str, Any]:
    try:
        result = verifier(dataclasses.asdict(ticket), dataclasses.asdict(candidate))
    except ChildFunctionError as error:
        raise ChildFunctionError(f"the verifier {name} failed: {error}") from None
    match result:
        case [int() | float() as score, list() as tags] if not isinstance(score, bool):
            if math.isfinite(score) and all(isinstance(tag, str) for tag in tags):
                return {"verifier_score": float(score), "verifier_tags": tags}
    raise ChildFunctionError(f"the verifier {name} returned no finite score with a list of tags")
