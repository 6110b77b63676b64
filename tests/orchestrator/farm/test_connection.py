"""The farm that a run uses: the endpoint of its workers, a store or a broker that refuses."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from farm_bench import RefusingValkey

from orchestrator.callbacks import Callbacks
from orchestrator.farm import FarmUnavailable, dispatcher
from orchestrator.farm.connection import connected, control, embedded_farm, farm_spec, make_sender, open_farm
from orchestrator.farm.work import send_chord, send_job
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.session import Driving
from orchestrator.runs.status import read_parked_state
from orchestrator.settings import SettingsError
from orchestrator.settings.kconfig import load_settings
from orchestrator.settings.options import Settings
from orchestrator.settings.run import make_run
from tasks.plan import Candidate
from tasks.records import JobSpec
from tasks.store.address import queues_url, store_url
from tasks.store.client import StoreUnusable, Waiting, connect
from tasks.store.store import Store

ADDRESS = "OPENAI_BASE_URL=https://api.example/v1"
CANDIDATES = [Candidate(0, (0.0,)), Candidate(1, (1.0,), target=0)]


def settings(*overrides: str) -> Settings:
    return load_settings(Path("configs/embedded.config"), overrides)


@pytest.mark.parametrize("refusal", ["full_disk", "full_memory", "replica", "away"])
def test_what_a_broker_refuses_is_sent_once_it_accepts_it(refusing_valkey: RefusingValkey, refusal: str) -> None:
    # Given an application that has sent before, and a broker that refuses then
    checked, url = threading.Event(), refusing_valkey.url
    store, app = Store(connect(store_url(url), Waiting(30.0, check=checked.set))), make_sender(url)
    spec = JobSpec("cpu.plot", "a plot", {})
    send_job(app, store, "run", "plot:0", spec, 1)
    with getattr(refusing_valkey, refusal)():
        # when a chord is sent
        sending = threading.Thread(target=send_chord, args=(app, store, "run", "g0_child", CANDIDATES, {}, 1))
        sending.start()
        assert checked.wait(10)
    # then it is sent once the broker accepts it, and the next message too
    sending.join(10)
    send_job(app, store, "run", "plot:1", spec, 1)
    broker = connect(queues_url(url))
    assert broker.llen("gpu") >= len(CANDIDATES)
    assert broker.llen("cpu") == 2
    broker.flushall()


def test_a_store_that_refuses_for_too_long_parks_the_run(refusing_valkey: RefusingValkey, tmp_path: Path) -> None:
    output = OutputFolder(tmp_path)
    with (
        Driving(output, Callbacks(())) as driving,
        connected(refusing_valkey.url, Waiting(0.5)) as farm,
        refusing_valkey.full_memory(),
    ):
        farm.store.put_file("run", "data", b"x")
    parked = read_parked_state(output)
    assert driving.ending.exit() == 3 and parked is not None and "refuses: OOM" in parked.reason


def test_a_store_that_refuses_is_noticed_while_the_run_only_reads(
    refusing_valkey: RefusingValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "CHECK_EVERY_S", 0.0)
    refused = pytest.raises(StoreUnusable, match="OOM")
    with connected(refusing_valkey.url, Waiting(0.5)) as farm, refusing_valkey.full_memory(), refused:
        dispatcher.WorkerMonitor(farm, pytest.fail).look()


def test_an_exported_key_does_not_turn_rules_into_a_paid_endpoint_which_needs_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_API_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SettingsError, match="CONFIG_OPENAI_BASE_URL: "):
        farm_spec(settings(ADDRESS))
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


def test_a_farm_that_is_up_with_the_other_endpoint_is_refused_to_a_run_that_makes_calls(
    tmp_path: Path, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-mine")
    for endpoint_url, overrides, found in (
        (None, [], "call a real endpoint"),
        ("http://127.0.0.1:9/v1", [ADDRESS], "answer by rules"),
    ):
        farm = control.Farm(tmp_path, valkey_url, endpoint_url, None, None)
        monkeypatch.setattr(control, "attach_or_start", lambda spec, farm=farm: farm)
        refused = pytest.raises(FarmUnavailable, match=f"{found}.*orchestrator farm down")
        with refused, embedded_farm(farm_spec(settings(*overrides)), lambda line: None):
            pytest.fail("the farm was used")
        with open_farm(settings("JUDGE=exact_number", "OPTIMISER=random"), lambda line: None) as connection:
            assert connection.queues()
