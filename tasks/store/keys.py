"""How the keys of the store are named, and what lies under them; nobody else spells one.

    whetstone:run:<id>:settings            the Run, as JSON
    whetstone:run:<id>:metadata            hash: clustering, and whatever else is learnt once a run
    whetstone:run:<id>:examples            {"training": [...], "validation": [...]}
    whetstone:run:<id>:plan:<name>         hash: "plan", "attempt", and one field a finished stage
    whetstone:run:<id>:prompts             hash: file name -> text of one call
    whetstone:run:<id>:tries               hash: what was tried -> how often that failed, or its worker died
    whetstone:run:<id>:usage               hash: counters of calls, tokens and money
    whetstone:run:<id>:answerers           set: [role, name], who answered for the reflector and the judge
    whetstone:run:<id>:calls               hash: calls begun and not settled, and what each may cost (ledger.py)
    whetstone:run:<id>:files               hash: file name -> bytes that a worker made for the output folder
    whetstone:run:<id>:notify              list: a result or failure was recorded
    whetstone:run:<id>:shared              set: keys below that this run has read or written
    whetstone:answer:<hash>                an answer, under the hash of all that determines it
    whetstone:verdict:<hash>               a verdict, likewise
    whetstone:clustering:<hash>            hash: labels (packed), descriptions
    whetstone:claim:<name>                 who is at work on this (see tasks/store/lock.py)

The truth of a generation in flight is its plan's hash; Celery's messages carry only what finds a place in it.
"""

from __future__ import annotations

from typing import Any, cast

PREFIX = "whetstone:"
STANDING = "standing"  # the metadata field in which the driver tells where its run stands
CODE, MODEL, CANCELLED = (
    "code",
    "model",
    "cancelled",
)  # metadata by which a worker accepts or discards
LIMIT = "stage_limit_s"  # the metadata field that holds the hard time limit of a stage, in seconds


def run_key(run_id: str, what: str) -> str:
    return f"{PREFIX}run:{run_id}:{what}"


def plan_key(run_id: str, name: str) -> str:
    return run_key(run_id, f"plan:{name}")


def text_of(value: Any) -> str | None:
    """A value of the store as text; None where there is none."""
    return None if value is None else cast(bytes, value).decode()
