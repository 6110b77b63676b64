"""`orchestrator compare` and `best`, on folders of finished runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from measured_book import EVOLVED, ONE_SENTENCE, book, system
from reported_run import write_reported
from terminal import run_here as run

from orchestrator.results import RunResults


def test_the_figures_are_those_of_the_plain_model_the_winner_and_the_strongest_rival(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_reported(tmp_path / "run")
    [found] = json.loads(run(capsys, "compare", folder, "--json")[1])
    plain, winner = book().plain.on("test"), book().system(EVOLVED).on("test")
    assert (found["measured_on"], found["questions"], found["winner"]) == ("test", 100, EVOLVED)
    assert (found["tokens_before"], found["tokens_after"]) == (plain.mean_tokens, winner.mean_tokens)
    assert (found["right_after"], found["whole_after"], found["correct_after"]) == (60, 100, 60)
    assert (found["rival"], found["rival_right"], found["rival_whole"]) == ("first sentence", 45, 100)
    low, high = found["token_change_interval"]
    assert low < found["token_change"] < high < 0
    said = json.loads((folder / "report.json").read_text())["conclusion"]["sentences"]
    assert any(f"({1 + low:.3f} to {1 + high:.3f})" in sentence for sentence in said)  # one figure, one interval
    status, said = run(capsys, "compare", folder)
    assert status == 0 and said.startswith(f"run-1: {found['verdict']}\n") and "rival whole" in said
    # and all systems are listed where they are asked for, which the report does not
    assert "80 words" in run(capsys, "compare", folder, "--all")[1]


def test_figures_are_computed_from_the_measurements_and_not_from_an_earlier_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    [found] = json.loads(run(capsys, "compare", folder, "--json")[1])
    assert found["tokens_after"] == pytest.approx(book().system(EVOLVED).on("test").mean_tokens + 80 / 100)
    assert found["verdict"] != report.conclusion.sentence
    # And without the answers, or with an impossible one, there are none
    for damaged in (json.dumps(measured)[:-900], json.dumps(measured).replace('"tokens": [', '"tokens": [-', 1)):
        (folder / "systems.json").write_text(damaged)
        status, said = run(capsys, "compare", folder)
        assert status == 1 and "systems.json cannot be read" in said
    assert "tokens[0]" in said


def test_two_runs_with_the_same_questions_are_compared_by_pairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = book(system(EVOLVED, "evolved", 0.3, "tr or va te", ONE_SENTENCE, lost=2))
    folders = write_reported(tmp_path / "one"), write_reported(tmp_path / "two", other)
    status, said = run(capsys, "compare", *folders)
    assert status == 0
    assert "on the same 100 test questions, against the winner of one-1" in said and "60 -> 58 of 100 correct" in said
    rows = json.loads(run(capsys, "compare", *folders, "--json")[1])
    assert [row["correct_after"] for row in rows] == [60, 58]
    # as a page, too
    assert run(capsys, "report", *folders, "--output", tmp_path / "both.html")[0] == 0
    assert "against the winner of one-1" in (tmp_path / "both.html").read_text()
    # and not where the questions differ
    (folders[1] / "questions.json").write_text('{"test": {"q0": "another"}}')
    assert "on the same" not in run(capsys, "compare", *folders)[1]


def test_the_best_of_runs_on_the_same_questions_is_named_without_a_guarantee(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shorter = book(system(EVOLVED, "evolved", 0.3, "tr or va te", ONE_SENTENCE))
    failed = book(system(EVOLVED, "evolved", 0.2, "tr or va te", ONE_SENTENCE), winner="plain", passed=())
    made = {"one": None, "two": shorter, "three": failed}
    one, two, three = (write_reported(tmp_path / name, found) for name, found in made.items())
    status, said = run(capsys, "best", one, two, three, "--json")
    found = json.loads(said)
    assert (status, found["best"]["folder"], found["best"]["system"]) == (0, str(two), EVOLVED)
    assert found["best"]["mean_tokens"] == shorter.system(EVOLVED).on("validation").mean_tokens
    assert (found["guaranteed"], len(found["passed"])) == (False, 2)  # a system that did not pass is none of them
    status, said = run(capsys, "best", one, two)
    assert status == 0 and "fresh questions" in said and "guarantee" in said
    # another judge or margin, other questions, one run, and a run without an end are refused
    config = (one / "config").read_text()
    others = {"JUDGE": '"x"', "JUDGE_TOLERANCE": '"0.3"', "JUDGE_FORGIVING": "n", "WHOLE": "n", "MARGIN": '"0.3"'}
    others["JUDGE_MODEL"] = '"x"'
    changed = "".join(f"CONFIG_{name}={value}\n" for name, value in others.items())
    (one / "config").write_text(f"CONFIG_NGEN=3\n{changed}")
    status, said = run(capsys, "best", one, two)
    assert status == 1 and all(f"another CONFIG_{name} " in said for name in others)
    (one / "config").write_text(config)
    (one / "questions.json").write_text('{"validation": {"q0": "another"}}')
    (three / "answers.json").unlink()
    for folders in ((one, two), (two,), (two, three)):
        assert run(capsys, "best", *folders)[0] == 1


def test_answers_are_shown_by_what_has_become_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_reported(tmp_path, book(system(EVOLVED, "evolved", 0.4, "tr or va te", ONE_SENTENCE, lost=3, cut=1)))
    answers = json.loads((folder / "answers.json").read_text())[0]
    for only, count in (("all", 100), ("changed", 100), ("lost", 3), ("gained", 0)):
        status, said = run(capsys, "compare", folder, "--answers", only)
        assert status == 0 and "\x1b" not in said and said.count("question  ") == count
    said = run(capsys, "compare", folder, "--answers", "all")[1]
    assert "wrong, cut" in said and said.startswith(f"test set: after: {EVOLVED}; 100 questions")
    assert json.loads(run(capsys, "compare", folder, "--answers", "all", "--json")[1]) == [answers]
    (folder / "answers.json").unlink()
    assert run(capsys, "compare", folder, "--answers", "all")[0] == 1


def test_a_folder_without_a_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = run(capsys, "compare", tmp_path)
    assert status == 1 and "holds no run" in said
