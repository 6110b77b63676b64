"""A run that goes on: settings that may change, and the target servers that it began with."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import cast

import pytest
from simulated_measurer import evolve_settings

from orchestrator.evolve.resume import (
    check_resumable,
    ensure_same_server,
    keep_servers,
    saved_settings,
    unknown_servers,
)
from orchestrator.evolve.session import start_evolution
from orchestrator.farm.work import Scheduler
from orchestrator.runs.folder import OutputError, OutputFolder
from orchestrator.settings import SettingsError
from orchestrator.settings.kconfig import write_config
from orchestrator.settings.run import make_run
from tasks.store.store import Store


@pytest.mark.parametrize(
    ("change", "may_change"),
    [
        ({"judge_model": "other"}, False),
        ({"openai_parameters": "{}"}, False),
        ({"openai_base_url": "https://api.example/v1"}, False),
        ({"seed": 7}, False),
        ({"target_concurrency": 9, "reflector_model": "other", "budget_usd": 9}, True),
        ({"farm": "external"}, True),
    ],
)
def test_what_a_verdict_or_the_search_depends_on_may_not_change(
    tmp_path: Path, change: dict[str, object], may_change: bool
) -> None:
    # the judge of an external farm is another one, unless it is a rule
    judge = {"judge": "exact_number"} if "farm" in change else {}
    write_config(evolve_settings(**judge), (output := OutputFolder(tmp_path)).config)
    with nullcontext() if may_change else pytest.raises(SettingsError, match=r"CONFIG_.*orchestrator retry"):
        check_resumable(output, evolve_settings(**judge, **change))


def test_a_run_whose_history_was_cut_does_not_go_on(finished_run: Path, tmp_path: Path) -> None:
    history = shutil.copytree(finished_run, tmp_path / "run") / "history.jsonl"
    history.write_text(history.read_text().splitlines(keepends=True)[0])
    with pytest.raises(OutputError, match=r"history\.jsonl has 1 of the 2 generations"):
        start_evolution(saved_settings(history.parent), fresh=False, plain=True)


def test_a_run_refuses_another_server_than_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, scheduler, settings = {"version": "1.0"}, cast(Scheduler, None), evolve_settings()
    target = make_run(settings, "run").target
    monkeypatch.setattr("orchestrator.runs.jobs.ask_server", lambda *_: {"server": dict(server), "model": {}})
    output = OutputFolder(tmp_path)
    for _ in range(2):
        ensure_same_server(scheduler, settings, target, output)
    server["version"] = "2.0"
    with pytest.raises(SettingsError, match=r"CONFIG_SGLANG_COMMAND: .*version '1\.0' is now '2\.0'"):
        ensure_same_server(scheduler, settings, target, output)


def test_a_server_that_answered_when_no_process_worked_on_the_run_is_unknown(store: Store, tmp_path: Path) -> None:
    keep_servers(output := OutputFolder(tmp_path), [{"model": "own"}])
    store.add_server("run", {"model": "own"})
    assert unknown_servers(output, store, "run") == []
    # When a task that was left in a queue is answered by another server
    store.add_server("run", {"model": "upgraded"})
    assert unknown_servers(output, store, "run") == [{"model": "upgraded"}]
    store.forget_servers("run")
    assert unknown_servers(output, store, "run") == []
