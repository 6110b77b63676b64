"""What the driver shows and publishes of a plan in flight, from its records in a real store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from simulated_run import RUN, Driver

from orchestrator.evolve.progress import ProgressReporter
from orchestrator.farm.work import Scheduler
from orchestrator.report.live import Snapshot
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.jobs import ArtifactRequests
from orchestrator.runs.status import StatusPublisher
from orchestrator.settings.kconfig import load_settings
from tasks.plan import Candidate, Evaluations, Plan
from tasks.store.keys import STATUS
from tasks.store.store import Store

CONFIG = Path(__file__).parents[3] / "configs" / "embedded.config"
PLAN = Plan("offspring", 1, (Candidate(0, (0.0, 0.0), target=1), Candidate(1, (0.0, 0.0))))
POPULATION = Plan("population", 0, (Candidate(0, (0.0, 0.0)), Candidate(1, (0.5, 0.0))))


@dataclass
class Screen:
    """A view that remembers what it was shown."""

    shown: list[Snapshot] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def show(self, snapshot: Snapshot) -> None:
        self.shown.append(snapshot)

    def notify(self, text: str) -> None:
        self.said.append(text)

    def close(self) -> None: ...


@pytest.fixture
def driver(valkey_url: str, store: Store) -> Iterator[Driver]:
    driver = Driver(valkey_url)
    yield driver
    driver.close()


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture
def reporter(driver: Driver, screen: Screen, tmp_path: Path) -> ProgressReporter:
    dispatcher, output = driver.dispatcher(), OutputFolder(tmp_path)
    publisher = StatusPublisher(RUN.id, driver.store, output, {"kind": "evolve", "total": 3}, 5.0)
    artifacts = ArtifactRequests(Scheduler(dispatcher), output)
    settings = load_settings(CONFIG, ["INITIAL_DELTAS_PATH=zero"])
    return ProgressReporter(dispatcher, settings, output, screen, artifacts, publisher)


def status(driver: Driver) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(driver.store.metadata(RUN.id, STATUS) or "{}")
    return found


def test_what_a_generation_took_is_what_was_used_when_it_was_recorded(
    reporter: ProgressReporter, screen: Screen, driver: Driver
) -> None:
    reporter(POPULATION, {}, [])
    driver.store.put_shared(RUN.id, "answer:1", {}, {"requests": 3, "target": 40, "cost_usd": 0.5})
    reporter.end_generation([], Evaluations(2, 0, 2))
    # Given a next plan of which something is done when it is first shown
    driver.store.put_shared(RUN.id, "answer:2", {}, {"requests": 1, "target": 10, "cost_usd": 0.25})
    reporter(PLAN, {"0:pre:answer": {"generated": 2}}, [])
    now = screen.shown[-1]
    assert (now.calls, now.evaluations) == (4, Evaluations(2, 0, 2) + Evaluations(1, 0, 0))
    [said] = screen.said
    assert "2 computed, 0 from the cache, 2 carried over, 3 calls, 40 tokens, $0.5000 of $5.00" in said


def test_a_cost_without_prices_is_shown_as_unknown_and_published_nowhere(
    reporter: ProgressReporter, screen: Screen, driver: Driver, tmp_path: Path
) -> None:
    driver.store.restore_usage(RUN.id, {"requests": 3, "cost_usd": 0.0})
    reporter.publisher.is_priced = False
    reporter(PLAN, {}, [])
    assert screen.shown[-1].cost_usd is None
    assert status(driver)["is_priced"] is False
    assert "cost_usd" not in json.loads((tmp_path / "usage.json").read_text())
