"""`orchestrator init`: each answer is checked, and a complete file is written."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulated_evolve import ROOT
from terminal import run_here as run

from orchestrator.commands.init import FREE, SIZES, Answer, read_budget, read_data, read_judge, read_model
from orchestrator.settings.kconfig import load_settings
from tasks.questions import read_questions
from tasks.records import Example

Captured = pytest.CaptureFixture[str]
QUESTIONS = "configs/data/sample_questions.jsonl"
GIVEN = ("--model", "embedded", "--data", QUESTIONS, "--judge", "rules", "--budget", "60 evaluations")
NUMBERS = [Example(str(i), "", "how many?", f"{i} apples") for i in range(8)]
SMALL = SIZES["cpu"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the project's configs and nothing else, where no farm is up and no key is known."""
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHETSTONE_REDIS_URL", "")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("orchestrator.commands.init.shutil.which", lambda name: None)  # no GPU
    return tmp_path


def make_model(folder: Path, weights: int = 10) -> str:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"0" * weights)
    return str(folder)


def write_rows(path: Path, rows: int, **columns: str) -> Path:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(columns))
        table.writeheader()
        table.writerows({name: value.format(i) for name, value in columns.items()} for i in range(rows))
    return path


def sets(found: Answer) -> list[str]:
    return [found.options[name] for name in ("TRAINING", "VALIDATION", "TEST")]


def test_a_model_runs_here_on_a_gpu_or_at_its_address_and_what_is_no_model_is_refused(place: Path) -> None:
    small = make_model(place / "small")
    for text, *expected in (
        ("embedded", "cpu", "embedded", ""),
        (small, "cpu", "embedded", ""),
        ("owner/name", "cuda", "external", ""),
        ("owner/name@http://127.0.0.1:30000", "cuda", "embedded", "http://127.0.0.1:30000"),
    ):
        options = read_model(text).options
        assert [options["DEVICE"], options["FARM"], options.get("SGLANG_URL", "")] == expected
    (place / "empty").mkdir()
    wrong = ("", "gpt", "embedded@http://127.0.0.1:30000", "owner/name@somewhere", str(place / "empty"))
    for text in (*wrong, make_model(place / "hollow", weights=0)):
        with pytest.raises(ValueError):
            read_model(text)


def test_the_splits_of_a_file_are_used_and_rows_without_splits_are_divided(place: Path) -> None:
    assert sets(read_data(QUESTIONS, SMALL)) == ["train[0:72]", "validation[0:300]", "test[0:100]"]
    found = read_data(str(write_rows(place / "q.csv", 30, Prompt="q{}", gold="{}", note="x")), SMALL)
    assert "question=Prompt answer=gold" in found.options["DATA_COLUMNS"]
    assert sets(found) == ["[0:9]", "[9:21]", "[21:30]"]
    # and without contexts the model is not told to use one
    assert found.options["TARGET_SYSTEM_PROMPT"] == "Answer the question."
    assert "TARGET_SYSTEM_PROMPT" not in read_data(QUESTIONS, SMALL).options


def test_a_missing_split_is_a_part_of_the_training_split(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "q.csv", 60, question="q{}", answer="{}", split="train")
    path.write_text(path.read_text() + "".join(f"t{i},{i},test\r\n" for i in range(20)))
    found = read_data(str(path), {"training": 5, "validation": 6, "test": 1})
    assert sets(found) == ["train[0:5]", "train[26:32]", "test[0:1]"]
    assert [example.question for example in found.examples][-2:] == ["q31", "t0"]


def test_unusual_columns_are_named_behind_the_file_and_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "q.csv", 30, Frage="q{}", Antwort="{}")
    found = read_data(f"{path} question=Frage answer=Antwort", SMALL)
    assert found.options["DATA_COLUMNS"].startswith("question=Frage answer=Antwort")
    empty = {"empty.csv": "", "empty.jsonl": "", "header.csv": "question,answer\n"}
    for name, content in empty.items():
        (tmp_path / name).write_text(content)
        with pytest.raises(ValueError, match="no rows"):
            read_data(str(tmp_path / name), SMALL)
        with pytest.raises(ValueError, match="no rows"):
            read_questions(tmp_path / name)
    short = write_rows(tmp_path / "short.csv", 19, question="q{}", answer="{}")
    behind = (f"{path} question=Nichts answer=Antwort", f"{path} frage=x", f"{path} question=Frage answer=Frage")
    for text in ("", str(path), "nothing.csv", str(ROOT / "Kconfig"), str(short), *behind):
        with pytest.raises(ValueError):
            read_data(text, SMALL)


def test_judges_without_a_model_are_free(tmp_path: Path) -> None:
    own = tmp_path / "judges.py"
    own.write_text("def same(question, gold, answer):\n    return gold == answer\n")
    for text, judge in (("rules", "three_stages"), ("exact_number", "exact_number"), (f"{own}:same", f"{own}:same")):
        options = read_judge(text, NUMBERS).options
        assert (options["JUDGE"], options["OPENAI_BASE_URL"]) == (judge, "")
    for text, external in (("exact_number", False), (f"{own}:other", False), ("", False), ("rules", True)):
        with pytest.raises(ValueError):
            read_judge(text, [Example("w1", "", "who?", "Ada"), *NUMBERS], external=external)
    # On an external farm no rules reflect, so that the search asks no model either
    assert read_judge("exact_number", NUMBERS, external=True).options["OPTIMISER"] == "cma"


def test_a_budget_is_evaluations_or_money_of_a_judge_with_prices() -> None:
    priced, unpriced = read_judge("gpt-4o", NUMBERS).options, read_judge("llama3:8b", NUMBERS).options
    own = read_judge("llama3:8b 1 1 1", NUMBERS)
    assert read_budget("65 evaluations", FREE).options == {"NGEN": "6", "BUDGET_USD": "0"}
    assert read_budget("$5", priced).options == {"NGEN": "6", "BUDGET_USD": "5"}
    assert read_budget("100 evaluations, $2.5", own.options).options == {"NGEN": "10", "BUDGET_USD": "2.5"}
    for text, judge in (("", FREE), ("5", FREE), ("9 evaluations", FREE), ("$5", FREE), ("$5", unpriced)):
        with pytest.raises(ValueError):
            read_budget(text, judge)


def test_a_complete_file_is_written_and_none_is_replaced_unasked(place: Path, capsys: Captured) -> None:
    assert run(capsys, "init", *GIVEN)[0] == 0
    settings = load_settings(place / ".config")
    assert (settings.target_model, settings.optimiser, settings.ngen) == ("embedded", "reflective", 6)
    assert str(settings.output_dir) == "outputs/run"
    (place / ".config").write_text("mine")
    status, said = run(capsys, "init", *GIVEN)
    assert (status, "--replace" in said, (place / ".config").read_text()) == (1, True, "mine")
    assert run(capsys, "init", *GIVEN, "--replace")[0] == 0 and load_settings(place / ".config") == settings


def test_the_doctor_passes_what_init_writes(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert run(capsys, "init", *GIVEN)[0] == 0
    assert run(capsys, "doctor")[0] == 0
    # and tells what the run would be refused for: a model without a key, and what is not installed
    model = ("--judge", "gpt-4o", "--config", "model.config")
    assert run(capsys, "init", *GIVEN[:4], "--budget", "60 evaluations", *model)[0] == 0
    assert run(capsys, "doctor", "--config", "model.config")[0] == 1
    status, said = run(capsys, "doctor", "--config", "nix.config")
    assert (status, "hint: edit" in said, "hint: write nix.config" in said) == (1, False, True)
    monkeypatch.setattr("workers.embedded.farm.NEEDED", ("json", "no_such_module"))
    assert run(capsys, "doctor")[0] == 1  # and takes .config where no other is named
    assert run(capsys, "evolve", "--output", "elsewhere")[0] == 2


def test_the_doctor_refuses_a_model_without_weights_as_init_does(place: Path, capsys: Captured) -> None:
    model = Path(make_model(place / "model"))
    assert run(capsys, "init", "--model", model, *GIVEN[2:])[0] == 0
    assert "holds no model" not in run(capsys, "doctor")[1]
    (model / "model.safetensors").unlink()
    status, said = run(capsys, "doctor")
    assert status == 1 and f"{model} holds no model (config.json and *.safetensors)" in said


def test_golds_without_a_value_and_questions_of_two_sets_are_named(place: Path, capsys: Captured) -> None:
    rows = [{"question": f"q{i % 20}", "answer": "nan" if i == 3 else "5", "id": f"\x1b[2J{i}"} for i in range(30)]
    path = place / "q.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    status, said = run(capsys, "init", *GIVEN[:2], "--data", path, *GIVEN[4:])
    assert status == 0 and "\x1b" not in said
    assert ": \\x1b[2J3\n" in said and "1 of 12 questions (8%) of the validation set" in said
    # and by the doctor, beside the judge, as what is neither right nor wrong
    status, told = run(capsys, "doctor")
    notes = [line for line in told.splitlines() if line.startswith("note ")]
    assert status == 0 and len(notes) > 2 and "at least 88 are needed" in notes[-1] and "at least 88" in said
    assert "\nok     judge  " in told
    # And rows that cannot be read are named as well
    path.write_text('{"question": "a"\n{"question": "b"\n')
    with pytest.raises(ValueError, match=r"(?s)line 1: invalid JSON.*line 2: invalid JSON"):
        read_data(str(path), SMALL)


def test_a_place_that_cannot_be_written_and_a_missing_answer_are_refused(place: Path, capsys: Captured) -> None:
    (place / "file").write_text("")
    (place / "done").mkdir()
    (place / "done" / "run.json").write_text("{}")
    for words, named in {
        ("init", *GIVEN, "--config", "file/x.config"): "file/x.config",
        ("init", *GIVEN, "--output", "done"): "--output",
        ("init", "--model", "embedded"): "--data",
        ("evolve",): "orchestrator init",
    }.items():
        status, said = run(capsys, *words)
        assert status == 1 and named in said
    assert not (place / ".config").exists()


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> Callable[..., list[str]]:
    """Somebody at a terminal, who types these lines and then leaves; gives the questions, as they are asked."""

    def types(*lines: str) -> list[str]:
        asked, typed = list[str](), iter(lines)

        def answer(question: str) -> str:
            asked.append(question.partition(" ")[0])
            try:
                return next(typed)
            except StopIteration:
                raise EOFError from None

        for stream in (sys.stdin, sys.stdout):
            monkeypatch.setattr(stream, "isatty", lambda: True)
        monkeypatch.setattr("builtins.input", answer)
        return asked

    return types


def test_a_person_is_asked_until_an_answer_can_be_used(place: Path, person: Any, capsys: Captured) -> None:
    asked = person(
        "no-such-model", "", "", "exact_number", "", "20 evaluations"
    )  # the sample has golds without a number
    assert run(capsys, "init")[0] == 0
    assert asked == ["model", "model", "data", "judge", "judge", "budget"]
    settings = load_settings(place / ".config")
    assert (settings.target_model, settings.judge, settings.ngen) == ("embedded", "three_stages", 2)


def test_an_input_that_ends_writes_nothing(place: Path, person: Any, capsys: Captured) -> None:
    person("embedded")
    assert run(capsys, "init")[0] == 1
    assert not (place / ".config").exists()
