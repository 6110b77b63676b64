"""What Celery keeps of a run is found by the run's id, and nothing of another run with it."""

from __future__ import annotations

from orchestrator.dispatch.evaluator import send_chord
from orchestrator.farm.producer import make_sender, new_id
from orchestrator.runs.lifecycle import delete_run
from tasks.plan import Candidate
from tasks.store.address import queues_url
from tasks.store.client import connect
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
    assert delete_run(app, connect(queues_url(valkey_url)), store, "run") >= 2
    assert kept(app) == {"run-2"}
