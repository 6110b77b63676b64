"""How fast a target answers, measured with a server that is started as a worker starts it."""

from __future__ import annotations

import dataclasses
import io
import json
import sys
from pathlib import Path

import psutil
import pytest
from server_target import server_target

from workers.sglang import host, speed
from workers.sglang.speed import COPIES, SpeedRequest, ask_speed

QUESTIONS = (("A page.", "Which one?"), ("", "What is it?"), ("Another.", "How many?"))


def test_each_question_is_asked_with_each_prompt_and_the_server_is_stopped(
    small_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = dataclasses.replace(
        server_target(ready_timeout_s=240), model=str(small_model), engine="embedded", concurrency=8
    )
    before = _servers()  # another test's may be up
    found = ask_speed(SpeedRequest(target, ("", "Be brief."), QUESTIONS), tmp_path)
    assert [len(answers) for answers in found.tokens] == [3, 3]
    assert all(0 <= count <= 8 for answers in found.tokens for count in answers) and any(map(any, found.tokens))
    assert min(found.start_s, found.first_s, found.second_s, found.full_s) > 0
    asked = f"asking {(2 + COPIES) * 6} questions"
    assert capsys.readouterr().err.splitlines() == ["starting the model's server", asked]
    assert _servers() == before


def _servers() -> set[psutil.Process]:
    return {child for child in psutil.Process().children() if "workers.embedded.target" in child.cmdline()}


def test_a_target_that_does_not_answer_is_an_error_of_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(host, "EXTERNAL_SERVER_S", 0.1)
    asked = SpeedRequest(server_target(url="http://127.0.0.1:1"), ("",), QUESTIONS)
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(dataclasses.asdict(asked))))
    assert speed.main() == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[1:] == [
        "not measured: the target server at http://127.0.0.1:1 does not answer /health"
    ]
