"""Whether a worker may do a run's work: what the run wants against what the worker is.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tasks.keys import CANCELLED, CODE, MODEL

MODEL_VARIABLE = "WHETSTONE_TARGET_MODEL"  # the one model that a gpu worker may serve; unset: whatever a run wants

Facts = Mapping[str, str | None]


@dataclass(frozen=True)
class Ability:
    """What a worker is: its code, and the model that it is pinned to, or ""."""

    code: str
    model: str


@dataclass(frozen=True)
class Verdict:
    """`take` does the work, `leave` gives it back for other workers, `drop` throws it away; and why."""

    action: Literal["take", "leave", "drop"]
    reason: str = ""


TAKE = Verdict("take")


def judge(run: str, facts: Facts, ability: Ability) -> Verdict:
    """What to do with a message of a run of which these facts are known; nothing known is nothing wanted."""
    if facts.get(CANCELLED):
        return Verdict("drop", f"run {run} was cancelled")
    code, model = facts.get(CODE), facts.get(MODEL)
    if code and code != ability.code:
        return Verdict(
            "leave",
            f"run {run} was started with code {code} and this worker has {ability.code}: "
            "install the same Whetstone on both, and restart the older one",
        )
    if model and ability.model and model != ability.model:
        return Verdict(
            "leave",
            f"run {run} wants the model {model} and this worker serves only {ability.model} ({MODEL_VARIABLE}): "
            "start one for that model, or unset the variable",
        )
    return TAKE
