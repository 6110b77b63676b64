"""A verifier of the user's own: a Python function that gives each candidate a score and tags, and decides nothing.

    def verify(ticket: dict, candidate: dict) -> tuple[float, list[str]]

It is named by an entry point of the group `whetstone.verifiers`, or as "module:function", importable where the cpu
workers run.  `ticket` has `group_id`, `mission`, `label` and `per_image`; `candidate` has `text`, `verdict`, `reason`
and `confidence`.  It must return the same for the same values: results are kept under their content.  It runs in a
process of its own (`tasks.common.named`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

from celery import shared_task

from tasks.common.named import ChildFunction, ChildFunctionError
from tasks.common.validation import ContentKey, Count, RunId
from tasks.task import JobTask, run_job

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


def verify_candidates(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """{"verified": [{"verifier_score", "verifier_tags"} of each candidate]}; the arguments are those of `verify_job`.

    Raises: ChildFunctionError when the function fails, does not return, or returns something else.
    """
    name, ticket = arguments["verifier"], arguments["ticket"]
    verifier = load_verifier(name)
    if verifier.identity != arguments["identity"]:
        raise ChildFunctionError(f"the source of the verifier {name} here is not that of the command's machine")

    def verified(candidate: Mapping[str, Any]) -> dict[str, Any]:
        try:
            result = verifier(ticket, candidate)
        except ChildFunctionError as error:
            raise ChildFunctionError(f"the verifier {name} failed: {error}") from None
        match result:
            case [int() | float() as score, list() as tags] if not isinstance(score, bool):
                if math.isfinite(score) and all(isinstance(tag, str) for tag in tags):
                    return {"verifier_score": float(score), "verifier_tags": tags}
        raise ChildFunctionError(f"the verifier {name} returned no finite score with a list of tags")

    return {"verified": [verified(candidate) for candidate in arguments["candidates"]]}


@shared_task(name="cpu.verify", base=JobTask)
def verify_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), lambda job: verify_candidates(job.arguments))
