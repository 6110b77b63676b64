"""What others may know of a run of any kind: its kind and state in its folder, its status in a store, its sums."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.collect.run import start_collection
from orchestrator.collect.settings import CollectOptions, read_collect_settings
from orchestrator.evolve.session import start_evolution
from orchestrator.farm import Parked
from orchestrator.farm.dispatcher import CANCELLED_REASON
from orchestrator.runs.folder import OutputError, OutputFolder
from orchestrator.runs.kinds import KINDS, kind_of
from orchestrator.runs.status import (
    ParkedState,
    StatusPublisher,
    read_usage,
    run_status,
    write_parked_state,
)
from orchestrator.settings.kconfig import load_settings
from tasks.openai.endpoint import Usage
from tasks.openai.limits import MARGIN_S, RunLimits
from tasks.records import Endpoint
from tasks.store.keys import STATUS
from tasks.store.store import Store

EVOLVE, COLLECT = Path("configs/embedded.config"), Path("configs/collect.yaml")
FIGURES = {"best": 0.5, "mean": 0.25, "best_ever": 0.5, "baseline": None}


@pytest.mark.parametrize("name", KINDS)
def test_a_run_of_each_kind_is_found_stopped_parked_and_running(tmp_path: Path, name: str) -> None:
    folder = OutputFolder(tmp_path)
    run_id, kind = folder.run_id(name), kind_of(tmp_path)
    status = run_status(tmp_path)
    assert (status.run, status.kind, status.state, status.done, status.total) == (run_id, name, "stopped", 0, None)
    assert kind.name == name and not kind.figure_lines(status.figures)
    write_parked_state(folder, ParkedState(CANCELLED_REASON))
    assert (run_status(tmp_path).state, run_status(tmp_path).reason) == ("parked", CANCELLED_REASON)
    folder.open()
    assert run_status(tmp_path).state == "running"
    # And another kind is refused by its name
    (tmp_path / "run.json").write_text(json.dumps({"id": "a-run", "kind": "dance"}))
    with pytest.raises(OutputError, match="no kind of runs is called 'dance'"):
        run_status(tmp_path)


def start_evolve(folder: Path) -> None:
    start_evolution(load_settings(EVOLVE, [f"OUTPUT_DIR={folder}"]), fresh=False, plain=True)


def start_collect(folder: Path) -> None:
    settings = dataclasses.replace(read_collect_settings(COLLECT), output_dir=str(folder))
    start_collection(settings, CollectOptions(requests_per_minute=1, tokens_per_minute=1000), resume=False)


@pytest.mark.parametrize(("kind", "start"), [("evolve", start_collect), ("collect", start_evolve)])
def test_a_command_of_another_kind_changes_nothing_in_the_folder(
    tmp_path: Path, kind: str, start: Callable[[Path], None]
) -> None:
    OutputFolder(tmp_path).run_id(kind)
    write_parked_state(OutputFolder(tmp_path), ParkedState("its reason"))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(OutputError, match=f"holds a run of '{kind}'"):
        start(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


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
            here.publish({"done": 1, **FIGURES})
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
    usage = {"requests": 2, "prompt": 100, "prompt@m": 100, "cost_usd": 0.5}
    with publisher(store, tmp_path).publish_final_state():
        store.restore_usage("run-1", usage)
    store.redis.flushdb()
    for _ in range(2):
        publisher(store, tmp_path).restore()
        assert store.usage("run-1") == usage
    # Without prices the cost is unknown, and published nowhere
    with dataclasses.replace(publisher(store, tmp_path), is_priced=False).publish_final_state():
        pass
    assert told(store)["is_priced"] is False and "cost_usd" not in read_usage(OutputFolder(tmp_path))
