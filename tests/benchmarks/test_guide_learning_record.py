"""What the benchmark of learning reads of a run's folder, and the settings that it makes."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import psutil
import pytest

from benchmarks.gpu.guide_learning import mission_record, mission_rows
from benchmarks.gpu.guide_runs import json_lines, overrides_of, run_settings, write_run_tickets
from benchmarks.gpu.guide_served import Commands
from orchestrator.guide.checks import check_guide
from orchestrator.guide.ingest import ingest
from orchestrator.guide.options import GuideOptions
from orchestrator.guide.settings import guide_settings_from
from orchestrator.guide.tickets.missions import CABINET


def operation(text: str) -> dict[str, object]:
    return {"op": "upsert", "key": None, "text": text, "rationale": None, "evidence": ["第1组"], "merged_from": []}


def test_a_run_is_read_to_its_last_whole_line(tmp_path: Path) -> None:
    folder = tmp_path / CABINET.name
    folder.mkdir()
    learned = {"G0": CABINET.first, "G1": CABINET.rules[0].text}
    (folder / "guidance.json").write_text(json.dumps({CABINET.name: {"step": 1, "experiences": learned}}))
    lines = [
        {"gate": "applied", "proposal": {"operations": [operation(CABINET.rules[0].text)]}, "rejected_operations": []},
        {"gate": "uplift", "proposal": {"operations": [operation(CABINET.distractors[0].text)]},
         "rejected_operations": [{"index": 1, "reason": "no evidence"}]},
        {"gate": "noop", "proposal": None, "rejected_operations": []},
    ]  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "reflection.jsonl").write_text(text + '{"gate": "cu')
    found = mission_record(tmp_path, CABINET)
    assert found["experiences"] == learned and found["learned_rules"] == found["proposed_rules"] == ["wire"]
    assert (found["learned_distractors"], found["proposed_distractors"]) == ([], ["rust"])
    assert found["gates"] == {"applied": 1, "uplift": 1, "noop": 1} and found["stats"] is None
    assert found["reflections"][1]["rejected_operations"] == ["no evidence"]
    [row] = mission_rows(3, {"code": None, "missions": {CABINET.name: found}})
    assert row == ["3", CABINET.name, "cut", "1 applied 1 noop 1 uplift", "1", "1", "3", "0"]
    assert mission_record(tmp_path / "none", CABINET)["experiences"] is None
    assert len(json_lines(folder / "reflection.jsonl")) == 3


@pytest.mark.parametrize("engine", ["sglang", "embedded"])
def test_the_settings_of_a_run_are_accepted(engine: str, tmp_path: Path) -> None:
    options = argparse.Namespace(engine=engine, model=str(tmp_path), shape="three", missions=[0, 3])
    write_run_tickets(tmp_path / "data", options.shape, options.missions, 96, 10, 5)
    options.set, options.prompt = ["runner.epochs=1", "reflection.allow_uncertain=true"], "examples"
    overrides = overrides_of(options)
    values = run_settings(options, tmp_path / "data", tmp_path / "runs", "seed-5", 5, overrides)
    settings = guide_settings_from(values)
    check_guide(settings, GuideOptions())
    assert (settings.runner.epochs, settings.reflection.allow_uncertain, settings.runner.shuffle_seed) == (1, True, 5)
    assert [(len(one.training), len(one.holdout)) for one in ingest(settings).values()] == [(64, 32)] * 2


def test_a_command_that_runs_too_long_is_interrupted_with_all_that_it_has_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Commands(tmp_path, time.monotonic() + 60).run(1, [sys.executable, "-c", "print(3)"]) == 0
    # The child, in the background of its shell, does not get the signal from it.
    sleeps = ["bash", "-c", f"sleep 61 & echo $! > {tmp_path}/child; sleep 60"]
    assert Commands(tmp_path, time.monotonic() + 0.5).run(2, sleeps) != 0
    child = int((tmp_path / "child").read_text())
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
    assert Commands(tmp_path, time.monotonic() - 1).run(3, ["no such command"]) == 143
    stopped = Commands(tmp_path, time.monotonic() + 60)
    stopped.stop()
    assert stopped.run(4, ["no such command"]) == 143
    printed = capsys.readouterr().out
    assert "\n3\n(0 after 0 s)" in printed and not (tmp_path / "3.log").exists()
    assert (tmp_path / "groups.txt").read_text() == ""
