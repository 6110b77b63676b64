"""A farm whose store refuses: a run waits with a line that says why, and then parks."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusing_valkey import RefusingValkey

from orchestrator.callbacks import Callbacks
from orchestrator.farm import FarmLost, StoreLost
from orchestrator.farm.connection import connected, external_farm
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.session import Driving
from orchestrator.runs.status import read_parked_state
from tasks.store.client import Waiting
from tasks.store.store import Store
from tasks.store.workers import WorkerRegistry


def test_a_store_that_refuses_for_too_long_parks_the_run(
    refusing_valkey: RefusingValkey, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = OutputFolder(tmp_path)

    with (
        Driving(output, Callbacks(())) as driving,
        connected(refusing_valkey.url, Waiting(0.5)) as farm,
        refusing_valkey.full_memory(),
    ):
        farm.store.put_file("run", "data", b"x")

    assert driving.ending.exit() == 3
    parked = read_parked_state(output)
    assert parked is not None
    assert parked.reason.startswith("the Redis or Valkey at unix://")
    assert "refuses: OOM" in parked.reason
    assert f"parked: {parked.reason}" in capsys.readouterr().err


def test_an_embedded_farm_that_has_ended_is_not_waited_for(refusing_valkey: RefusingValkey) -> None:
    def check() -> None:
        raise FarmLost("the farm has ended")

    with (
        pytest.raises(FarmLost, match="the farm has ended"),
        refusing_valkey.replica(),
        connected(refusing_valkey.url, Waiting(60.0, check=check)) as farm,
    ):
        farm.store.put_file("run", "data", b"x")


def test_a_store_that_goes_away_under_a_command_is_reported_in_one_line(refusing_valkey: RefusingValkey) -> None:
    with (
        pytest.raises(StoreLost, match=r"does not answer.*, for 0 s"),
        connected(refusing_valkey.url, Waiting(0.3)) as farm,
        refusing_valkey.away(),
    ):
        farm.queues()


def test_a_run_on_an_external_farm_says_which_endpoint_its_workers_call(valkey_url: str, store: Store) -> None:
    for name, url in (("openai@a", "http://rules:8000/v1"), ("openai@b", ""), ("cpu@a", None)):
        endpoint = {} if url is None else {"endpoint": {"key": True, "base_url": url}}
        WorkerRegistry(store.redis).put(name, {"worker": name, "queue": name.partition("@")[0], **endpoint}, 60)
    said: list[str] = []
    with external_farm(valkey_url, said.append):
        assert said[1:] == [
            "its openai workers call http://rules:8000/v1 and https://api.openai.com/v1, unless the settings name"
            " another address"
        ]
