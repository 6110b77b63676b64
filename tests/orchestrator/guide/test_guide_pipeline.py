"""All missions over one scheduler: each goes on when its own results are there, and nothing that came is lost."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator.farm import Parked
from orchestrator.farm.work import Request
from orchestrator.guide.reflecting import TooManyRejected
from orchestrator.guide.rollouts import Results
from orchestrator.guide.session import MissionRun, drive_missions
from orchestrator.runs.jobs import JOURNAL, Journal
from tasks.records import JobSpec


class OneByOne:
    """A scheduler whose jobs end one at a time, those of the mission `slow` last."""

    def __init__(self) -> None:
        self.sent: list[Request] = []
        self.done: list[str] = []

    def submit(self, request: Request, journal: Journal) -> None:
        self.sent.append(request)

    def results(self, watch: Callable[[], None]) -> Iterator[tuple[Request, dict[str, Any]]]:
        while self.sent:
            watch()
            self.sent.sort(key=lambda request: request.key.startswith("slow"))
            request = self.sent.pop(0)
            self.done.append(request.key)
            yield request, {"of": request.key}


def asking(name: str, *rounds: Sequence[str]) -> Generator[Sequence[Request], Results, None]:
    for keys in rounds:
        results = yield [Request(f"{name}:{key}", JobSpec("t", key, {})) for key in keys]
        assert set(results) == {f"{name}:{key}" for key in keys}


def pipeline(folder: Path, scheduler: OneByOne, **missions: Generator[Sequence[Request], Results, None]) -> None:
    runs = [
        MissionRun(None, steps, Journal(folder / f"{name}{JOURNAL}"))  # type: ignore[arg-type]  # only of its figures
        for name, steps in missions.items()
    ]
    drive_missions(scheduler, runs, lambda: None)  # type: ignore[arg-type]  # only these two methods are used


def test_a_slow_mission_holds_up_no_other_one(tmp_path: Path) -> None:
    scheduler = OneByOne()
    pipeline(tmp_path, scheduler, slow=asking("slow", "ab", "c"), fast=asking("fast", "ab", "c", "d"))
    assert scheduler.done == [*(f"fast:{key}" for key in "abcd"), *(f"slow:{key}" for key in "abc")]


def test_too_many_unusable_replies_park_the_run_and_are_noted(tmp_path: Path) -> None:
    def rejected() -> Generator[Sequence[Request], Results, None]:
        yield from asking("bad", "a")
        raise TooManyRejected("mission bad: 5 replies in a row", 7)

    with pytest.raises(Parked, match="mission bad: 5 replies in a row"):
        pipeline(tmp_path, OneByOne(), bad=rejected(), good=asking("good", "abc"))
    assert Journal(tmp_path / f"bad{JOURNAL}").parked_at == [7]
