"""A verifier of the user's own: a Python function that gives each candidate a score and tags, and decides nothing.

    def verify(ticket: dict, candidate: dict) -> tuple[float, list[str]]

It is named by an entry point of the group `whetstone.verifiers`, or as "module:function", importable where the cpu
workers run.  `ticket` has `group_id`, `mission`, `label` and `per_image`; `candidate` has `text`, `verdict`, `reason`
and `confidence`.  It must return the same for the same values: results are kept under their content.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.escape import first_line
from tasks.guide.candidates import GuideCandidate, Ticket
from tasks.guide.jobs import VerifyInput
from tasks.named import load_named, source_identity

GROUP = "whetstone.verifiers"


class VerifierError(Exception):
    """There is no such function, it failed, or it returned something else.  The message is one line and names it."""


@dataclass(frozen=True)
class Verifier:
    """`identity` is of the module's source: another source, another content key."""

    name: str
    function: Callable[[Mapping[str, Any], Mapping[str, Any]], Any]
    identity: str

    def verify(self, ticket: Ticket, candidate: GuideCandidate) -> dict[str, Any]:
        """{"verifier_score": float, "verifier_tags": [str]}."""
        try:
            result = self.function(dataclasses.asdict(ticket), dataclasses.asdict(candidate))
        except (Exception, SystemExit) as error:  # sys.exit would end the worker's process and not the run
            raise VerifierError(
                f"the verifier {self.name} failed: {type(error).__name__}: {first_line(error)}"
            ) from error
        match result:
            case (int() | float() as score, list() | tuple() as tags) if not isinstance(score, bool):
                if math.isfinite(score) and all(isinstance(tag, str) for tag in tags):
                    return {"verifier_score": float(score), "verifier_tags": list(tags)}
        raise VerifierError(f"the verifier {self.name} returned no finite score with a list of tags")


def load_verifier(name: str) -> Verifier:
    try:
        function = load_named(name, GROUP)
    except (Exception, SystemExit) as error:  # a user's module may raise whatever it likes while it is imported
        raise VerifierError(f"the verifier {name!r} cannot be loaded: {first_line(error)}") from error
    if not callable(function):
        raise VerifierError(f"the verifier {name!r} is no function")
    return Verifier(name, function, source_identity(function))


def verified(asked: VerifyInput) -> list[dict[str, Any]]:
    """Of each candidate."""
    verifier = load_verifier(asked.verifier)
    if verifier.identity != asked.identity:
        raise VerifierError(f"the source of the verifier {asked.verifier} here is not that of the command's machine")
    return [verifier.verify(asked.ticket, candidate) for candidate in asked.candidates]
