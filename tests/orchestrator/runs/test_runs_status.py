"""What others may know of a run: its status in a real store, its sums in a real folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.farm import Parked
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.status import StatusPublisher, read_usage
from tasks.openai.endpoint import Usage
from tasks.openai.limits import MARGIN_S, RunLimits
from tasks.records import Endpoint
from tasks.store.keys import STATUS
from tasks.store.store import Store

FIGURES = {"best": 0.5, "mean": 0.25, "best_ever": 0.5, "baseline": None}
PROGRESS = {"done": 1, **FIGURES}


def publisher(store: Store, folder: Path) -> StatusPublisher:
    return StatusPublisher("run-1", store, OutputFolder(folder), about={"kind": "evolve", "total": 4}, budget_usd=5.0)


def told(store: Store) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(store.metadata("run-1", STATUS) or "{}")
    return found


@pytest.mark.parametrize(
    ("raised", "state"),
    [(None, "finished"), (Parked("no money"), "parked"), (KeyboardInterrupt(), "stopped"), (ValueError(), "stopped")],
)
def test_how_a_run_ended_is_told_however_it_does(
    store: Store, tmp_path: Path, raised: BaseException | None, state: str
) -> None:
    here = publisher(store, tmp_path)
    store.restore_usage("run-1", {"requests": 2, "cost_usd": 0.5})
    asked = Endpoint("", "K", -MARGIN_S - 1, 1, 0, 0, 1.0, 1.0, 1.0, 0.0)
    RunLimits(store.redis, "run-1", asked).begin(Usage(completion=250_000))
    try:
        with here.publish_final_state():
            here.publish(PROGRESS)
            assert told(store)["state"] == "running"
            if raised is not None:
                raise raised
    except (Parked, KeyboardInterrupt, ValueError) as error:
        assert error is raised
    found = told(store)
    assert (found["kind"], found["state"], found["done"], found["total"]) == ("evolve", state, 1, 4)
    assert (found["figures"], found["budget_usd"]) == (FIGURES, 5.0)
    assert read_usage(OutputFolder(tmp_path)) == {
        "requests": 3, "cost_usd": 0.5, "unconfirmed_usd": 0.25, "budget_usd": 5.0,
    }  # fmt: skip


def test_a_store_that_lost_its_counters_goes_on_from_the_folder(store: Store, tmp_path: Path) -> None:
    here = publisher(store, tmp_path)
    with here.publish_final_state():
        store.restore_usage("run-1", {"requests": 2, "prompt": 100, "prompt@m": 100, "cost_usd": 0.5})
    store.redis.flushdb()
    for _ in range(2):
        publisher(store, tmp_path).restore()
        assert store.usage("run-1") == {"requests": 2, "prompt": 100, "prompt@m": 100, "cost_usd": 0.5}
