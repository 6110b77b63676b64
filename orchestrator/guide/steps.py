"""What the steps of a mission share: what they are given, how they ask for results, and how they end early.

A step is a generator: it yields requests, and is sent their results by key.  It knows no farm, so a test drives it
with a dictionary of results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from orchestrator.dispatch.scheduler import Request
from orchestrator.guide.ingest import MissionTickets
from orchestrator.guide.settings import GuideSettings
from tasks.guide.context import GuideContext
from tasks.guide.jobs import KeyedJob

JOB_LIMIT_S = 1800.0
"""The hard time limit of one job."""

T = TypeVar("T")
Results = Mapping[str, Mapping[str, Any]]
Steps = Generator[Sequence[Request], Results, T]


class StepStopped(Exception):
    """What a mission cannot go on with, in one line: the settings or the data must change."""


@dataclass(frozen=True)
class MissionSetup:
    """What a mission is given.  `parked_at` has the counts of replies at which it has parked before."""

    tickets: MissionTickets
    settings: GuideSettings
    context: GuideContext
    parked_at: frozenset[int] = frozenset()
    verifier_identity: str = ""

    @property
    def mission(self) -> str:
        return self.tickets.mission

    @property
    def focus(self) -> str:
        return self.settings.missions[self.mission]

    def label(self, *parts: object) -> str:
        """What a person calls a job of the mission: a few words, without spaces."""
        return "_".join("/".join(map(str, (self.mission, *parts))).split())


def as_request(job: KeyedJob) -> Request:
    key, spec = job
    return Request(key, dataclasses.replace(spec, limit_s=JOB_LIMIT_S))
