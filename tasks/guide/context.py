"""What every job of a guided run must know, kept in the store with the run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tasks.job import Job
from tasks.message import discard
from tasks.models import Endpoint, Target
from tasks.validation import parse_json

GUIDE = "guide"  # under which the store has it


@dataclass(frozen=True)
class GuideContext:
    """The target that answers, and the endpoint that criticises or proposes where the settings say so.

    `server` is the identity of the target's server (tasks/gpu/host.py): with it the keys cover model, weights,
    tokenizer and chat template.  Of `target`, system prompt, template and sampling are not used: each job has its own.
    """

    target: Target
    server: Mapping[str, Any] = field(default_factory=dict)
    endpoint: Endpoint | None = None
    endpoint_model: str = ""

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> GuideContext:
        """Raises: InvalidData."""
        return parse_json(cls, text)


def guide_context(job: Job) -> GuideContext:
    """The context of the job's run.  Raises: Ignore when the store has none."""
    text = job.store.metadata(job.run, GUIDE)
    if text is None:
        raise discard(f"no guided run {job.run!r} in the store")
    return _parsed(text)


@lru_cache(maxsize=4)
def _parsed(text: str) -> GuideContext:
    return GuideContext.from_json(text)
