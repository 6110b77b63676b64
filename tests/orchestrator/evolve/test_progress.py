"""What the driver shows and publishes of a plan in flight, from its records in a real store."""

from __future__ import annotations

import json
from pathlib import Path

from simulated_run import RUN, Driver

from orchestrator.evolve.progress import ProgressReporter
from orchestrator.farm.work import Scheduler
from orchestrator.report.live import Snapshot
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.jobs import ArtifactRequests
from orchestrator.runs.kinds import STEP_FILE
from orchestrator.runs.session import Session
from orchestrator.runs.status import StatusPublisher
from orchestrator.settings.kconfig import load_settings
from tasks.plan import Candidate, Evaluations, Plan
from tasks.store.keys import STATUS

CONFIG = Path(__file__).parents[3] / "configs" / "embedded.config"
PLAN = Plan("offspring", 1, (Candidate(0, (0.0, 0.0), target=1), Candidate(1, (0.0, 0.0))))
POPULATION = Plan("population", 0, (Candidate(0, (0.0, 0.0)), Candidate(1, (0.5, 0.0))))


class Screen:
    """A view that remembers what it was shown."""

    def __init__(self) -> None:
        self.shown: list[Snapshot] = []
        self.said: list[str] = []
        self.show, self.notify = self.shown.append, self.said.append

    def close(self) -> None: ...


def made_reporter(driver: Driver, folder: Path, screen: Screen) -> ProgressReporter:
    dispatcher, output = driver.dispatcher(), OutputFolder(folder)
    publisher = StatusPublisher(RUN.id, driver.store, output, {"kind": "evolve", "total": 3}, 5.0)
    settings = load_settings(CONFIG, ["INITIAL_DELTAS_PATH=zero"])
    artifacts = ArtifactRequests(Scheduler(dispatcher), output)
    session = Session(output, dispatcher.farm, RUN.id, "evolve", 1.0, dispatcher, publisher)
    return ProgressReporter(session, settings, screen, artifacts)


def test_what_a_generation_took_is_what_was_used_when_it_was_recorded(alone: Driver, tmp_path: Path) -> None:
    reporter = made_reporter(alone, tmp_path, screen := Screen())
    reporter(POPULATION, {}, [])
    alone.store.put_shared(RUN.id, "answer:1", {}, {"requests": 3, "target": 40, "cost_usd": 0.5})
    reporter.end_generation([], Evaluations(2, 0, 2))
    # Given a next plan of which something is done when it is first shown
    alone.store.put_shared(RUN.id, "answer:2", {}, {"requests": 1, "target": 10, "cost_usd": 0.25})
    reporter(PLAN, {"0:pre:answer": {"generated": 2}}, [])
    now = screen.shown[-1]
    assert json.loads((tmp_path / STEP_FILE).read_text()) == "breeding and evaluating children"
    assert (now.calls, now.cost_usd, now.evaluations) == (4, 0.75, Evaluations(2, 0, 2) + Evaluations(1, 0, 0))
    [said] = screen.said
    assert "2 computed, 0 from the cache, 2 carried over, 3 calls, 40 tokens, $0.5000 of $5.00" in said


def test_a_cost_without_prices_is_shown_as_unknown_and_published_nowhere(alone: Driver, tmp_path: Path) -> None:
    reporter = made_reporter(alone, tmp_path, screen := Screen())
    alone.store.restore_usage(RUN.id, {"requests": 3, "cost_usd": 0.0})
    reporter.session.publisher.is_priced = False
    reporter(PLAN, {}, [])
    assert screen.shown[-1].cost_usd is None
    assert json.loads(alone.store.metadata(RUN.id, STATUS) or "{}")["is_priced"] is False
    assert "cost_usd" not in json.loads((tmp_path / "usage.json").read_text())
