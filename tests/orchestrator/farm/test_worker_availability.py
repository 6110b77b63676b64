"""A run whose queue has no worker reports it, once."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusing_valkey import RefusingValkey

from orchestrator.farm import dispatcher
from orchestrator.farm.connection import connected
from orchestrator.farm.dispatcher import WorkerMonitor, unavailable_line
from tasks.store.client import StoreUnusable, Waiting

REFUSING = {"worker": "gpu@there", "queue": "gpu", "state": "refusing", "why": "another model"}
READY = {"worker": "gpu@here", "queue": "gpu", "state": "ready", "why": ""}


def test_no_worker_is_missed_where_nothing_waits_or_one_is_ready() -> None:
    assert unavailable_line("gpu", 0, []) == ""
    assert unavailable_line("gpu", 3, [REFUSING, READY]) == ""
    assert unavailable_line("gpu", 3, [REFUSING]) == "no worker is available for queue gpu: gpu@there: another model"
    assert "start one with `python -m workers cpu`" in unavailable_line("cpu", 3, [REFUSING])


def test_a_store_that_refuses_is_reported_while_the_run_only_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "CHECK_EVERY_S", 0.0)
    server, said = RefusingValkey(tmp_path), list[str]()
    try:
        server.start()
        refused = pytest.raises(StoreUnusable, match="OOM")
        with connected(server.url, Waiting(4.0, said.append)) as farm, server.full_memory(), refused:
            WorkerMonitor(farm, said.append).look()
        assert len(said) == 1 and "OOM" in said[0]
    finally:
        server.close()
