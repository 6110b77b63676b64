"""`orchestrator init`: each answer is checked, and a complete file is written, which the doctor accepts."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulated_run import ROOT

from orchestrator.settings.kconfig import load_settings

GIVEN = {
    "model": "embedded", "data": "configs/data/sample_questions.jsonl", "judge": "rules", "budget": "60 evaluations",
}  # fmt: skip
ON_SERVER = {"model": "owner/name@http://127.0.0.1:30000"}
NUMBERS = {"training": "[0:9]", "validation": "[9:21]", "test": "[21:30]"}


def write_rows(path: str, rows: int, **columns: str) -> None:
    with Path(path).open("w", newline="") as file:
        table = csv.DictWriter(file, list(columns))
        table.writeheader()
        table.writerows({name: value.format(i) for name, value in columns.items()} for i in range(rows))


def make_model(name: str, weights: int) -> Path:
    folder = Path(name)
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"0" * weights)
    return folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the project's configs and files to name, where no farm is up and no key is known."""
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHETSTONE_REDIS_URL", "")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("orchestrator.commands.init.shutil.which", lambda name: None)  # no GPU
    make_model("small", 10)
    make_model("hollow", 0)
    write_rows("numbers.csv", 30, Prompt="q{}", gold="{}", note="x")
    write_rows("odd.csv", 30, Frage="q{}", Antwort="{}")
    write_rows("split.csv", 60, question="q{}", answer="{}", split="train")
    with Path("split.csv").open("a") as file:
        file.writelines(f"t{i},{i},test\r\n" for i in range(20))
    write_rows("short.csv", 19, question="q{}", answer="{}")
    Path("empty.csv").write_text("")
    Path("header.csv").write_text("question,answer\n")
    Path("broken.jsonl").write_text('{"question": "a"\n{"question": "b"\n')
    Path("judges.py").write_text("def same(question, gold, answer):\n    return gold == answer\n")
    (tmp_path / "done").mkdir()
    Path("done/run.json").write_text("{}")
    return tmp_path


@pytest.fixture
def init(place: Path, run: Any) -> Callable[..., tuple[int, str]]:
    """Runs `init` with these answers in place of the usual ones; None leaves one out."""

    def init(*flags: str, **changed: str | None) -> tuple[int, str]:
        options = {name: value for name, value in (GIVEN | changed).items() if value is not None}
        return run("init", *(word for name, value in options.items() for word in (f"--{name}", value)), *flags)

    return init


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({}, {"target_model": "embedded", "device": "cpu", "farm": "embedded", "optimiser": "reflective", "ngen": 6}),
        ({}, {"training": "train[0:72]", "validation": "validation[0:300]", "test": "test[0:100]"}),
        ({"model": "./small"}, {"device": "cpu", "farm": "embedded", "target_model": "./small"}),
        ({"model": "owner/name", "judge": "gpt-4o"}, {"device": "cuda", "farm": "external", "openai_base_url": ""}),
        (ON_SERVER, {"device": "cuda", "farm": "embedded", "sglang_url": "http://127.0.0.1:30000"}),
        # without contexts the model is not told to use one
        ({"data": "numbers.csv"}, {**NUMBERS, "target_system_prompt": "Answer the question."}),
        ({"data": "odd.csv question=Frage answer=Antwort"}, NUMBERS),
        ({"data": "split.csv"}, {"training": "train[0:26]", "validation": "train[26:60]", "test": "test[0:20]"}),
        ({"data": "numbers.csv", "judge": "exact_number"}, {"judge": "exact_number", "openai_base_url": ""}),
        # where no rules reflect, no model is asked to
        ({"model": "owner/name", "data": "numbers.csv", "judge": "exact_number"}, {"optimiser": "cma"}),
        ({"judge": "judges.py:same"}, {"judge": "judges.py:same", "openai_base_url": ""}),
        ({"judge": "gpt-4o", "budget": "$5"}, {"ngen": 6, "budget_usd": 5, "judge_model": "gpt-4o"}),
        ({"judge": "llama3:8b 1 2 1", "budget": "100 evaluations, $2.5"}, {"ngen": 10, "openai_prices": "1 2 1"}),
        ({"budget": "65 evaluations"}, {"ngen": 6, "budget_usd": 0}),
    ],
)
def test_answers_become_settings(init: Any, answers: dict[str, str], expected: dict[str, Any]) -> None:
    status, said = init(**answers)
    assert status == 0, said
    settings = load_settings(Path(".config"))
    assert {name: getattr(settings, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("model", ["", "gpt", "embedded@http://127.0.0.1:30000", "owner/name@somewhere", "done", "hollow"]),
        ("data", ["", "nothing.csv", "odd.csv", "odd.csv frage=x", "odd.csv question=Nichts answer=Antwort"]),
        ("data", ["odd.csv question=Frage answer=Frage", "short.csv", "empty.csv", "header.csv", "broken.jsonl"]),
        ("judge", ["", "judges.py:other", "exact_number"]),  # not all of the sample's golds are numbers
        ("budget", ["", "5", "9 evaluations", "$5"]),  # rules cost nothing
        ("config", ["done/run.json/x.config"]),
        ("output", ["done"]),
    ],
)
def test_an_answer_that_cannot_be_used_writes_nothing(init: Any, place: Path, name: str, texts: list[str]) -> None:
    def files() -> list[Path]:  # without those of Python, which imports a judge
        return sorted(path for path in place.rglob("*") if "__pycache__" not in path.parts)

    before = files()
    for text in texts:
        assert init(**{name: text})[0] == 1, text
    for together in ({"model": "owner/name"}, {"judge": "llama3:8b", "budget": "$5"}):  # no rules, no prices
        assert init(**together)[0] == 1
    status, said = init(data=None)
    assert (status, "--data" in said, files()) == (1, True, before)


def test_a_file_is_not_replaced_unasked(init: Any, run: Any, place: Path) -> None:
    status, said = run("evolve")
    assert (status, "orchestrator init" in said) == (1, True)
    (place / ".config").write_text("mine")
    status, said = init()
    assert (status, "--replace" in said, (place / ".config").read_text()) == (1, True, "mine")
    assert init("--replace")[0] == 0 and load_settings(place / ".config").ngen == 6


def test_the_doctor_passes_what_init_writes_and_tells_what_a_run_would_be_refused_for(
    place: Path, monkeypatch: pytest.MonkeyPatch, init: Any, run: Any
) -> None:
    assert init()[0] == 0
    assert run("doctor")[0] == 0
    # a model without a key, one without weights, a file that is not there, and what is not installed
    assert init(judge="gpt-4o", config="key.config")[0] == init(model="./small", config="small.config")[0] == 0
    assert run("doctor", "--config", "key.config")[0] == 1
    assert "holds no model" not in run("doctor", "--config", "small.config")[1]
    (place / "small" / "model.safetensors").unlink()
    status, said = run("doctor", "--config", "small.config")
    assert status == 1 and "small holds no model (config.json and *.safetensors)" in said
    status, said = run("doctor", "--config", "nix.config")
    assert (status, "hint: write nix.config" in said) == (1, True)
    monkeypatch.setattr("workers.embedded.farm.NEEDED", ("json", "no_such_module"))
    assert run("doctor")[0] == 1
    assert run("evolve", "--output", "elsewhere")[0] == 2


def test_golds_without_a_value_and_questions_of_two_sets_are_named(init: Any, run: Any) -> None:
    rows = [{"question": f"q{i % 20}", "answer": "nan" if i == 3 else "5", "id": f"\x1b[2J{i}"} for i in range(30)]
    Path("q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    status, said = init(data="q.jsonl")
    assert status == 0 and "\x1b" not in said
    assert ": \\x1b[2J3\n" in said and "1 of 12 questions (8%) of the validation set" in said
    # and by the doctor, beside the judge, as what is neither right nor wrong
    status, told = run("doctor")
    assert status == 0 and "at least 88 are needed" in told and "at least 88" in said


def test_a_person_is_asked_until_an_answer_can_be_used(run: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()
    typed = iter(["no-such-model", "", "", "exact_number", "", "20 evaluations"])
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question.partition(" ")[0]) or next(typed))
    assert run("init")[0] == 0
    assert asked == ["model", "model", "data", "judge", "judge", "budget"]
    settings = load_settings(place / ".config")
    assert (settings.target_model, settings.judge, settings.ngen) == ("embedded", "three_stages", 2)
