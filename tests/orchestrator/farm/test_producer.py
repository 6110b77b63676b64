"""Messages that a broker refuses are sent later; what Celery keeps of a run is found by the run's id."""

from __future__ import annotations

import threading

import pytest
from refusing_valkey import RefusingValkey

from orchestrator.farm.connection import FarmConnection, make_sender
from orchestrator.farm.work import new_id, send_chord, send_job
from orchestrator.runs.lifecycle import delete_run
from tasks.plan import Candidate
from tasks.records import JobSpec
from tasks.store.address import queues_url, store_url
from tasks.store.client import Waiting, connect
from tasks.store.store import Store

CANDIDATES = [Candidate(0, (0.0,)), Candidate(1, (1.0,), target=0)]


def kept(app: object) -> set[str]:
    """The runs that Celery's results speak of."""
    keys = app.backend.client.keys("celery-*")  # type: ignore[attr-defined]  # `object` here: Celery is generic
    return {key.decode().split("-", 3)[-1].removeprefix("meta-").partition(".")[0] for key in keys}


def test_deleting_a_run_leaves_nothing_of_it_in_celerys_results(valkey_url: str, store: Store) -> None:
    # Given two runs, one's name the beginning of the other's, each with a chord under way and a result not fetched
    app = make_sender(valkey_url)
    for run_id in ("run", "run-2"):
        send_chord(app, store, run_id, "g0_child", CANDIDATES, {}, 1)
        app.backend.store_result(new_id(run_id), None, "SUCCESS")
    assert kept(app) == {"run", "run-2"}
    # When one is deleted, then the other's are all that is left
    farm = FarmConnection(app, connect(queues_url(valkey_url)), store, rules=False, check=lambda: None)
    assert delete_run(farm, "run") >= 2
    assert kept(app) == {"run-2"}


@pytest.mark.parametrize("refusal", ["full_disk", "full_memory", "replica", "away"])
def test_what_a_broker_refuses_is_sent_once_it_accepts_it(refusing_valkey: RefusingValkey, refusal: str) -> None:
    # Given an application that has sent before, and a broker that refuses then
    checked = threading.Event()
    store, app = (
        Store(connect(store_url(refusing_valkey.url), Waiting(30.0, check=checked.set))),
        make_sender(refusing_valkey.url),
    )
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
    broker = connect(queues_url(refusing_valkey.url))
    assert broker.llen("gpu") >= len(CANDIDATES)
    assert broker.llen("cpu") == 2
    broker.flushall()
