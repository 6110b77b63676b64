"""The farm that a run uses: the endpoint of its workers, a store that refuses, a queue without workers."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from refusing_valkey import RefusingValkey

from orchestrator.callbacks import Callbacks
from orchestrator.farm import FarmUnavailable, StoreLost
from orchestrator.farm import dispatcher as waiting_loop
from orchestrator.farm.connection import connected, control, embedded_farm, external_farm, farm_spec, open_farm
from orchestrator.farm.dispatcher import WorkerMonitor, unavailable_line
from orchestrator.route.run import ROUTE
from orchestrator.route.settings import RouteOptions, RouteSettings
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.session import Driving
from orchestrator.runs.status import read_parked_state
from orchestrator.settings import SettingsError
from orchestrator.settings.kconfig import load_settings
from orchestrator.settings.options import Settings
from orchestrator.settings.run import make_run
from tasks.store.client import StoreUnusable, Waiting
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


ROOT = Path(__file__).parents[3]
ADDRESS = "OPENAI_BASE_URL=https://api.example/v1"


@pytest.fixture(autouse=True)
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def settings(*overrides: str) -> Settings:
    return load_settings(ROOT / "configs" / "embedded.config", overrides)


def test_an_exported_key_does_not_turn_rules_into_a_paid_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a key in the environment, under either name
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-mine")
    monkeypatch.setenv("MY_KEY", "sk-of-mine")
    for name in ("OPENAI_API_KEY", "MY_KEY"):
        chosen = settings(f"OPENAI_API_KEY_ENV={name}")
        # When the embedded configuration starts a farm, then its endpoint is the one with rules
        assert farm_spec(chosen).embedded_endpoint
        # And calls use the key that the farm gives its own workers, at a known price
        endpoint = make_run(chosen, "run").endpoint
        assert (endpoint.base_url, endpoint.api_key_env) == ("", "OPENAI_API_KEY")
        assert (endpoint.price_prompt, endpoint.price_cached, endpoint.price_completion) == (0, 0, 0)


def test_a_real_endpoint_needs_a_key_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY_FILE", raising=False)
    with pytest.raises(SettingsError, match="CONFIG_OPENAI_BASE_URL: "):
        farm_spec(settings(ADDRESS))


@pytest.mark.parametrize(
    ("endpoint_url", "overrides", "found"),
    [(None, [], "call a real endpoint"), ("http://127.0.0.1:9/v1", [ADDRESS], "answer by rules")],
)
def test_a_farm_that_is_already_up_with_the_other_endpoint_is_refused(
    tmp_path: Path, valkey_url: str, monkeypatch: pytest.MonkeyPatch,
    endpoint_url: str | None, overrides: list[str], found: str,
) -> None:  # fmt: skip
    # Given a farm that somebody has started, whose endpoint is not the one of the settings
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-mine")
    farm = control.Farm(tmp_path, valkey_url, endpoint_url, None, None)
    monkeypatch.setattr(control, "attach_or_start", lambda spec: farm)
    # When a run opens it, then nothing is sent, and the error says what to do
    refused = pytest.raises(FarmUnavailable, match=f"{found}.*orchestrator farm down")
    with refused, embedded_farm(farm_spec(settings(*overrides)), lambda line: None):
        pytest.fail("the farm was used")


@pytest.mark.parametrize("endpoint_url", [None, "http://127.0.0.1:9/v1"])
def test_a_run_that_makes_no_calls_uses_a_farm_that_is_up_with_either_endpoint(
    tmp_path: Path, valkey_url: str, monkeypatch: pytest.MonkeyPatch, endpoint_url: str | None
) -> None:
    farm = control.Farm(tmp_path, valkey_url, endpoint_url, None, None)
    monkeypatch.setattr(control, "attach_or_start", lambda spec: farm)
    chosen = settings("JUDGE=exact_number", "OPTIMISER=random")
    for opened in (open_farm(chosen, lambda line: None), ROUTE.connect(cast(RouteSettings, None), RouteOptions())):
        with opened as connection:
            assert connection.queues()


REFUSING = {"worker": "gpu@there", "queue": "gpu", "state": "refusing", "why": "another model"}
READY = {"worker": "gpu@here", "queue": "gpu", "state": "ready", "why": ""}


def test_no_worker_is_missed_where_nothing_waits_or_one_is_ready() -> None:
    assert unavailable_line("gpu", 0, []) == ""
    assert unavailable_line("gpu", 3, [REFUSING, READY]) == ""
    assert unavailable_line("gpu", 3, [REFUSING]) == "no worker is available for queue gpu: gpu@there: another model"
    assert "start one with `python -m workers cpu`" in unavailable_line("cpu", 3, [REFUSING])


def test_a_store_that_refuses_is_reported_while_the_run_only_reads(
    refusing_valkey: RefusingValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_loop, "CHECK_EVERY_S", 0.0)
    said = list[str]()
    refused = pytest.raises(StoreUnusable, match="OOM")
    with connected(refusing_valkey.url, Waiting(4.0, said.append)) as farm, refusing_valkey.full_memory(), refused:
        WorkerMonitor(farm, said.append).look()
    assert len(said) == 1 and "OOM" in said[0]
