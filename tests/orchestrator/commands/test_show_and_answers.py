"""`orchestrator show` and `orchestrator answers`, on the folder of a finished run."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    assert isinstance(ended.value.code, int)
    said = capsys.readouterr()
    return ended.value.code, said.out + said.err


def test_every_individual_can_be_shown_with_what_its_file_has(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = [json.loads(line) for line in (finished_run / "individuals.jsonl").read_text().splitlines()]
    for one in recorded:
        status, said = run(capsys, "show", finished_run, one["node"], "--json")
        shown = json.loads(said)
        assert status == 0
        assert {cluster["id"]: cluster["delta"] for cluster in shown["clusters"]} == one["deltas"]
        for name in ("scratchpad", "fitness", "target", "mean_tokens"):
            assert shown[name] == one[name]
    status, said = run(capsys, "show", finished_run, "g0_child0_mut")
    assert status == 0 and "g0_child0_pre" in said and "reflected" in said
    [fitness] = [one["fitness"] for one in recorded if one["node"] == "g0_child0_mut"]
    assert f"{fitness:.4g}" in said and not re.search(r"\d\.\d{5}", said)
    assert run(capsys, "show", finished_run, "g9_pop9")[0] == 1


def test_answers_are_shown_by_what_has_become_of_them(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # given a run of which one answer was lost and one gained, with text that could act on a terminal
    folder = shutil.copytree(finished_run, tmp_path / "run")
    answers = json.loads((folder / "answers.json").read_text())[:1]
    before: list[dict[str, Any]] = answers[0]["before"]
    after: list[dict[str, Any]] = answers[0]["after"]
    for i, (was, now) in enumerate(((True, False), (False, True), (True, True), (True, True))):
        before[i] |= {"is_correct": was, "text": f"before {i}"}
        after[i] |= {"is_correct": now, "text": f"after \x1b[2J {i}" if i < 3 else "before 3"}
    (folder / "answers.json").write_text(json.dumps(answers))
    for only, shown in (("all", {0, 1, 2, 3}), ("changed", {0, 1, 2}), ("lost", {0}), ("gained", {1})):
        status, said = run(capsys, "answers", folder, "--only", only)
        assert status == 0 and "\x1b" not in said
        assert {i for i in range(4) if f"before {i}" in said} == shown
    assert json.loads(run(capsys, "answers", folder, "--json")[1])[0]["after"][1]["text"] == "after \x1b[2J 1"
    (folder / "answers.json").unlink()
    assert run(capsys, "answers", folder)[0] == 1
