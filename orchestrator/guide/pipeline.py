"""All missions of a run side by side: whatever result comes first goes to its mission, and no mission waits for
another one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.dispatch.dispatcher import Parked
from orchestrator.dispatch.scheduler import Request, Scheduler
from orchestrator.guide.journal import Journal
from orchestrator.guide.reflecting import TooManyRejected
from orchestrator.guide.rollouts import Steps
from tasks.store.fence import RunTaken


@dataclass(frozen=True)
class MissionRequest(Request):
    """A request of one mission."""

    mission: str


@dataclass
class MissionRun:
    """The steps of one mission under way, its journal, and what it waits for: `None` before a result is there."""

    name: str
    steps: Steps[None]
    journal: Journal
    is_finished: bool = False
    _waiting: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)
    _missing: int = 0

    def begin(self) -> list[MissionRequest]:
        """The first requests.  Raises: as the steps; Parked."""
        return self._advance(None)

    def take(self, key: str, result: Mapping[str, Any]) -> list[MissionRequest]:
        """What is asked next, once all that was waited for is there.  Raises: as the steps; Parked."""
        self.journal.add(key, result)
        self._missing -= self._waiting[key] is None
        self._waiting[key] = result
        if self._missing:
            return []
        return self._advance({key: value for key, value in self._waiting.items() if value is not None})

    def _advance(self, results: Mapping[str, Mapping[str, Any]] | None) -> list[MissionRequest]:
        asked: Sequence[Request] = []
        try:
            while not asked:
                asked = next(self.steps) if results is None else self.steps.send(results)
                results = {}
        except StopIteration:
            self.is_finished = True
        except TooManyRejected as error:
            self.journal.add_park(error.replies)
            raise Parked(str(error)) from None
        by_key = {request.key: request for request in asked}
        self._waiting, self._missing = dict.fromkeys(by_key), len(by_key)
        return [MissionRequest(request.key, request.spec, self.name) for request in by_key.values()]


@dataclass
class MissionPipeline:
    """The missions of a run over its one scheduler, which bounds the requests in flight.

    `watch` is called after each look at the store, and whenever a mission has gone on.
    """

    scheduler: Scheduler
    missions: Iterable[MissionRun]
    watch: Callable[[], None]

    def run(self) -> None:
        """Raises: Parked, and what the steps raise."""
        by_name = {mission.name: mission for mission in self.missions}
        try:
            for mission in by_name.values():
                self._submit(mission.begin())
            for request, value in self.scheduler.results(lambda: self._look(by_name.values())):
                assert isinstance(request, MissionRequest)
                self._submit(by_name[request.mission].take(request.key, value))
        except RunTaken:
            raise  # the folder is another process's
        except BaseException:
            self._flush(by_name.values())
            raise
        self._flush(by_name.values())

    def _submit(self, requests: Iterable[MissionRequest]) -> None:
        for request in requests:
            self.scheduler.submit(request)

    def _look(self, missions: Iterable[MissionRun]) -> None:
        self._flush(missions)
        self.watch()

    def _flush(self, missions: Iterable[MissionRun]) -> None:
        for mission in missions:
            mission.journal.flush()
