"""`orchestrator compare` and `best`, on folders of finished runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from measured_book import EVOLVED, ONE_SENTENCE, book, system, write_reported

from orchestrator.results import RunResults

SHORTER = book(system(EVOLVED, "evolved", 0.3, "tr or va te", ONE_SENTENCE, lost=2))


def test_the_figures_are_those_of_the_plain_model_the_winner_and_the_strongest_rival(tmp_path: Path, run: Any) -> None:
    folder = write_reported(tmp_path / "run")
    [found] = json.loads(run("compare", folder, "--json")[1])
    plain, winner = book().plain.on("test"), book().system(EVOLVED).on("test")
    assert (found["measured_on"], found["questions"], found["winner"]) == ("test", 100, EVOLVED)
    assert (found["tokens_before"], found["tokens_after"]) == (plain.mean_tokens, winner.mean_tokens)
    assert (found["right_after"], found["whole_after"], found["correct_after"]) == (60, 100, 60)
    assert (found["rival"], found["rival_right"], found["rival_whole"]) == ("first sentence", 45, 100)
    low, high = found["token_change_interval"]
    assert low < found["token_change"] < high < 0
    said = json.loads((folder / "report.json").read_text())["conclusion"]["sentences"]
    assert any(f"({1 + low:.3f} to {1 + high:.3f})" in sentence for sentence in said)  # one figure, one interval
    status, said = run("compare", folder)
    assert status == 0 and said.startswith(f"run-1: {found['verdict']}\n")


def test_figures_are_computed_from_the_measurements_and_not_from_an_earlier_report(tmp_path: Path, run: Any) -> None:
    # Given a run whose report was changed, then its figures are those of its answers, which the report had
    folder = write_reported(tmp_path / "run")
    written = json.loads((folder / "report.json").read_text())
    (folder / "report.json").write_text("{")
    report = RunResults.open(folder).report
    assert report is not None and json.loads(json.dumps(asdict(report))) == written
    # And when an answer is another one, they follow
    measured = json.loads((folder / "systems.json").read_text())
    [winner] = (one for one in measured["systems"] if one["name"] == EVOLVED)
    winner["test"]["tokens"][0] += 80
    (folder / "systems.json").write_text(json.dumps(measured))
    [found] = json.loads(run("compare", folder, "--json")[1])
    assert found["tokens_after"] == pytest.approx(book().system(EVOLVED).on("test").mean_tokens + 80 / 100)
    # And without the answers, or with an impossible one, there are none
    for damaged in (json.dumps(measured)[:-900], json.dumps(measured).replace('"tokens": [', '"tokens": [-', 1)):
        (folder / "systems.json").write_text(damaged)
        status, said = run("compare", folder)
        assert status == 1 and "systems.json cannot be read" in said


def test_two_runs_are_compared_by_pairs_where_their_questions_are_the_same(tmp_path: Path, run: Any) -> None:
    folders = write_reported(tmp_path / "one"), write_reported(tmp_path / "two", SHORTER)
    status, said = run("compare", *folders)
    assert status == 0 and "on the same 100 test questions" in said and "60 -> 58 of 100 correct" in said
    # as a page, too
    assert run("report", *folders, "--output", tmp_path / "both.html")[0] == 0
    assert "against the winner of one-1" in (tmp_path / "both.html").read_text()
    (folders[1] / "questions.json").write_text('{"test": {"q0": "another"}}')
    assert "on the same" not in run("compare", *folders)[1]


def test_the_best_of_runs_on_the_same_questions_is_named_without_a_guarantee(tmp_path: Path, run: Any) -> None:
    failed = book(system(EVOLVED, "evolved", 0.2, "tr or va te", ONE_SENTENCE), winner="plain", passed=())
    made = {"one": None, "two": SHORTER, "three": failed}
    one, two, three = (write_reported(tmp_path / name, found) for name, found in made.items())
    status, said = run("best", one, two, three, "--json")
    found = json.loads(said)
    assert (status, found["best"]["folder"], found["best"]["system"]) == (0, str(two), EVOLVED)
    assert found["best"]["mean_tokens"] == SHORTER.system(EVOLVED).on("validation").mean_tokens
    assert (found["guaranteed"], len(found["passed"])) == (False, 2)  # a system that did not pass is none of them
    # another judge or margin, other questions, one run, and a run without an end are refused
    config = (one / "config").read_text()
    changed = {"JUDGE": '"x"', "JUDGE_MODEL": '"x"', "JUDGE_TOLERANCE": '"0.3"', "WHOLE": "n", "MARGIN": '"0.3"'}
    (one / "config").write_text("".join(f"CONFIG_{name}={value}\n" for name, value in changed.items()))
    status, said = run("best", one, two)
    assert status == 1 and all(f"another CONFIG_{name} " in said for name in changed)
    (one / "config").write_text(config)
    (one / "questions.json").write_text('{"validation": {"q0": "another"}}')
    (three / "answers.json").unlink()
    for folders in ((one, two), (two,), (two, three)):
        assert run("best", *folders)[0] == 1


def test_answers_are_shown_by_what_has_become_of_them(tmp_path: Path, run: Any) -> None:
    folder = write_reported(tmp_path, book(system(EVOLVED, "evolved", 0.4, "tr or va te", ONE_SENTENCE, lost=3, cut=1)))
    for only, count in (("all", 100), ("changed", 100), ("lost", 3), ("gained", 0)):
        status, said = run("compare", folder, "--answers", only)
        assert status == 0 and "\x1b" not in said and said.count("question  ") == count
        assert ("wrong, cut" in said) == (only in ("all", "changed"))
    (folder / "answers.json").unlink()
    assert run("compare", folder, "--answers", "all")[0] == 1
