"""The logs of real workers: every line about a task names it, also the lines that Celery writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from farm_bench import Bench, until

from orchestrator.settings import load_settings, make_run
from tasks.job import JobSpec
from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.keys import JOBS
from tasks.store.store import Store

ROOT = Path(__file__).parents[3]
SECRET = "sk-0123456789-never-to-be-seen"


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.chdir(ROOT)  # the paths of the settings begin here
    bench = Bench(tmp_path, OPENAI_API_KEY=SECRET)
    try:
        bench.start_valkey()
        run = make_run(load_settings(ROOT / "configs" / "embedded.config"), "demo-1")
        Store(connect(store_url(bench.url))).put_run(run)
        yield bench
    finally:
        bench.close()


def test_a_worker_of_processes_writes_json_lines_with_their_context(farm: Bench) -> None:
    # given a worker of processes, when one task fails and another one succeeds
    worker = farm.start_worker("cpu", 1, WHETSTONE_LOG_FORMAT="json")
    farm.app.send_task("cpu.plot", ("demo-1", SECRET, 1))
    store, key = Store(connect(store_url(farm.url))), f"plot:{'0' * 64}"
    spec = JobSpec("cpu.plot", "fitness.png", {"name": "fitness.png", "data": "plot_data"})
    store.put_job("demo-1", key, spec.to_json())
    failed = farm.app.send_task("cpu.plot", ("demo-1", key, store.next_attempt("demo-1", JOBS))).id
    done = farm.app.send_task("cpu.gather", ("demo-1", "g2_child", 1)).id
    until(lambda: farm.log("cpu").read_text().count('"task": "' + done) >= 2)
    worker.ask_to_stop()
    assert worker.wait_end(20)
    # then each line is an object that names the worker, also the lines of its shutdown
    text = farm.log("cpu").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert {line.get("worker", "").partition("@")[0] for line in lines} == {"cpu"}
    assert any("shutdown" in line["message"] for line in lines)
    # and the lines about the tasks name their run and stage: received, failed; received, succeeded
    of_failed = [line for line in lines if line.get("task") == failed]
    assert [line["logger"] for line in of_failed] == ["celery.worker.strategy", "celery.app.trace"]
    assert {(line["run"], line["stage"]) for line in of_failed} == {("demo-1", "plot")}
    assert "has no file plot_data" in of_failed[-1]["exception"]
    of_done = [line for line in lines if line.get("task") == done]
    assert {(line["run"], line.get("stage")) for line in of_done} == {("demo-1", "gather")}
    assert len(of_done) == 2
    # and no key is in them, although one was in a refused message
    assert SECRET not in text and "[secret]" in text
