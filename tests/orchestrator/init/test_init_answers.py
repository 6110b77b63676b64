"""The four answers: each is checked, and what was found is said."""

from __future__ import annotations

import csv
import json
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from http_thread import http_server

from orchestrator.init import model as model_module
from orchestrator.init.asking import WrongAnswer
from orchestrator.init.budget import RunBudget, read_budget
from orchestrator.init.judge import JudgeChoice, read_judge
from orchestrator.init.model import read_model
from orchestrator.init.questions import QuestionsChoice, read_questions_file
from tasks.models import Example

ROOT = Path(__file__).parents[3]
NUMBERS = [Example(str(i), "", "how many?", f"{i} apples") for i in range(8)]
FREE, PAID = JudgeChoice({}, "free"), JudgeChoice({}, "a model", is_paid=True)


class TestModel:
    @pytest.fixture(autouse=True)
    def _no_gpu(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(model_module.shutil, "which", lambda name: None)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)

    @pytest.fixture
    def hub(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """A server that has one model."""

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.send_response(302 if self.path == "/owner/there/resolve/main/config.json" else 401)
                self.end_headers()

        with http_server(Handler) as url:
            monkeypatch.setenv("HF_ENDPOINT", url)
            yield

    def make_model(self, folder: Path, weights: int = 10, template: str = "x") -> Path:
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
        (folder / "model.safetensors").write_bytes(b"0" * weights)
        return folder

    def test_the_embedded_model_and_a_small_folder_are_computed_on_the_cpu(self, tmp_path: Path) -> None:
        assert read_model("embedded").is_on_cpu
        found = read_model(str(self.make_model(tmp_path / "small")))
        assert found.is_on_cpu and found.options["TARGET_MODEL"] == str(tmp_path / "small")

    def test_a_model_of_the_hub_runs_with_sglang(self, hub: None) -> None:
        found = read_model("owner/there")
        assert found.options["TARGET_ENGINE"] == "sglang" and found.options["FARM"] == "external"
        assert "owner/there, on Hugging Face" in found.about and "there is no GPU here" in found.about
        with pytest.raises(WrongAnswer, match="has no model owner/nowhere"):
            read_model("owner/nowhere")

    def test_a_running_server_is_named_behind_the_model(self, hub: None) -> None:
        found = read_model("owner/there@http://127.0.0.1:30000")
        assert (found.options["SGLANG_URL"], found.options["FARM"]) == ("http://127.0.0.1:30000", "embedded")
        with pytest.raises(WrongAnswer, match="is not an address"):
            read_model("owner/there@somewhere")

    def test_without_a_network_the_name_is_taken_as_it_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
            assert "could not be looked up (ConnectError)" in read_model("owner/name").about
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        assert "could not be looked up (HF_HUB_OFFLINE)" in read_model("owner/name").about

    def test_what_is_no_model_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        for text, reason in (
            ("", "name a model"),
            ("gpt", "neither a folder nor an id"),
            ("embeded", "did you mean embedded"),
            ("embedded@http://127.0.0.1:30000", "embedded has no address"),
            (str(tmp_path / "empty"), "no config.json"),
            (str(self.make_model(tmp_path / "base", template="")), "no chat template"),
            (str(self.make_model(tmp_path / "hollow", weights=0)), "no weights"),
        ):
            with pytest.raises(WrongAnswer, match=reason):
                read_model(text)


class TestQuestions:
    def write(self, path: Path, rows: int, **columns: str) -> Path:
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, list(columns))
            table.writeheader()
            table.writerows({name: value.format(i) for name, value in columns.items()} for i in range(rows))
        return path

    def indices(self, found: QuestionsChoice) -> dict[str, str]:
        options = found.with_sizes({"training": 5, "validation": 6, "test": 1})
        return {name: value for name, value in options.items() if name.endswith(("_INDICES", "_SPLIT"))}

    def test_the_sample_has_all_columns_and_splits(self) -> None:
        found = read_questions_file(str(ROOT / "configs/data/sample_questions.jsonl"))
        assert found.about == (
            "400 questions; columns: question, answer, context, id, split;"
            " 100 for training, 100 for validation, 200 for test"
        )
        assert self.indices(found) == {
            "TRAINING_SPLIT": "train", "VALIDATION_SPLIT": "validation", "TEST_SPLIT": "test",
            "TRAINING_INDICES": "0-4", "VALIDATION_INDICES": "0-5", "TEST_INDICES": "0",
        }  # fmt: skip

    def test_columns_with_other_usual_names_are_found(self, tmp_path: Path) -> None:
        found = read_questions_file(str(self.write(tmp_path / "q.csv", 30, Prompt="q{}", gold="{}", note="x")))
        assert "columns: question (Prompt), answer (gold); no column for context, id, split" in found.about
        assert (found.options["QUESTION_COLUMN"], found.options["ANSWER_COLUMN"]) == ("Prompt", "gold")
        assert found.sizes() == {"training": 12, "validation": 9, "test": 9}
        assert self.indices(found) == {
            "TRAINING_SPLIT": "", "VALIDATION_SPLIT": "", "TEST_SPLIT": "", "TRAINING_INDICES": "0-4",
            "VALIDATION_INDICES": "12-17", "TEST_INDICES": "21",
        }  # fmt: skip

    def test_unusual_columns_are_named_behind_the_file(self, tmp_path: Path) -> None:
        path = self.write(tmp_path / "q.csv", 30, Frage="q{}", Antwort="{}")
        with pytest.raises(
            WrongAnswer, match=r"no column for the question among Frage, Antwort; name it: .* question="
        ):
            read_questions_file(str(path))
        found = read_questions_file(f"{path} question=Frage answer=Antwort")
        assert found.options["QUESTION_COLUMN"] == "Frage"
        for behind, reason in (("question=Nichts", "has no column 'Nichts'"), ("frage=x", "only question=COLUMN")):
            with pytest.raises(WrongAnswer, match=reason):
                read_questions_file(f"{path} {behind}")

    def test_splits_that_are_missing_are_parts_of_the_training_split(self, tmp_path: Path) -> None:
        path = self.write(tmp_path / "q.csv", 60, question="q{}", answer="{}", split="train")
        path.write_text(path.read_text() + "".join(f"t{i},{i},test\r\n" for i in range(20)))
        found = read_questions_file(str(path))
        assert found.sizes() == {"training": 34, "validation": 26, "test": 20}
        assert self.indices(found) == {
            "TRAINING_SPLIT": "train", "VALIDATION_SPLIT": "train", "TEST_SPLIT": "test", "TRAINING_INDICES": "0-4",
            "VALIDATION_INDICES": "34-39", "TEST_INDICES": "0",
        }  # fmt: skip
        assert found.examples["test"][0].question == "t0" and found.examples["validation"][0].question == "q34"

    def test_what_cannot_be_read_is_refused(self, tmp_path: Path) -> None:
        (empty := tmp_path / "empty.csv").write_text("")
        short = self.write(tmp_path / "short.csv", 19, question="q{}", answer="{}")
        for text, reason in (
            ("", "name a file"),
            (str(empty), "has no rows"),
            (str(tmp_path / "nothing.csv"), "does not exist"),
            (str(ROOT / "Kconfig"), "format of a file without a suffix is not known"),
            (str(short), "has 19 questions; at least 20"),
        ):
            with pytest.raises(WrongAnswer, match=reason):
                read_questions_file(text)


class TestJudge:
    def test_those_without_a_model_are_free(self) -> None:
        for text, judge in (("rules", "three_stages"), ("exact_number", "exact_number")):
            found = read_judge(text, NUMBERS)
            assert (found.options["JUDGE"], found.options["EMBEDDED_ENDPOINT"], found.is_paid) == (
                judge,
                "rules",
                False,
            )

    def test_a_model_has_prices_or_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        found = read_judge("gpt-4o", NUMBERS)
        assert found.has_prices and "OPENAI_PRICE_PROMPT" not in found.options and "no key" not in found.about
        other = read_judge("llama3:8b", NUMBERS)
        assert not other.has_prices and other.options["OPENAI_PRICE_PROMPT"] == ""
        priced = read_judge("llama3:8b", NUMBERS, {"PROMPT": "1", "CACHED": "1", "COMPLETION": "2"})
        assert priced.has_prices and priced.options["OPENAI_PRICE_COMPLETION"] == "2"
        monkeypatch.setenv("OPENAI_API_KEY", "")
        assert "OPENAI_API_KEY has no key yet" in read_judge("gpt-4o", NUMBERS).about

    def test_a_function_is_loaded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "init_judges.py").write_text("def same(question, gold, answer):\n    return gold == answer\n")
        monkeypatch.syspath_prepend(tmp_path)
        assert read_judge("init_judges:same", NUMBERS).options["JUDGE"] == "init_judges:same"
        with pytest.raises(WrongAnswer, match="cannot be loaded"):
            read_judge("init_judges:other", NUMBERS)

    def test_one_that_cannot_judge_these_questions_is_refused(self) -> None:
        words = [Example("w1", "", "who?", "Ada"), *NUMBERS]
        for text, reason, external in (
            ("exact_number", "right answers without a number: w1", False),
            ("rulez", "did you mean rules", False),
            ("exact", "did you mean exact_number", False),
            ("", "name a judge", False),
            ("rules", "only an embedded farm has rules", True),
        ):
            with pytest.raises(WrongAnswer, match=reason):
                read_judge(text, words, external=external)


class TestBudget:
    @pytest.mark.parametrize(
        ("text", "budget"),
        [
            ("$5", RunBudget(5, "dollars")), ("2.5 usd", RunBudget(2.5, "dollars")),
            ("60 evaluations", RunBudget(60, "evaluations")),
            ("1 day", RunBudget(24, "hours")),
            ("2h", RunBudget(2, "hours")), ("1.5 hours", RunBudget(1.5, "hours")), ("30 min", RunBudget(0.5, "hours")),
        ],
    )  # fmt: skip
    def test_an_amount_has_a_unit(self, text: str, budget: RunBudget) -> None:
        assert read_budget(text, PAID) == budget

    def test_one_of_a_thing_is_written_so(self) -> None:
        texts = ("60 evaluations", "1 h", "1 min", "30 min", "$1")
        written = ["60 evaluations", "1 hour", "1 minute", "30 minutes", "$1"]
        assert [str(read_budget(text, PAID)) for text in texts] == written

    @pytest.mark.parametrize("text", ["", "5", "$", "five dollars", "-1 h", "$5 hours", "0 min", "1e9 h", "nan h"])
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(WrongAnswer):
            read_budget(text, PAID)

    def test_money_needs_calls_that_cost_and_prices(self) -> None:
        with pytest.raises(WrongAnswer, match="nothing costs money"):
            read_budget("$5", FREE)
        with pytest.raises(WrongAnswer, match=r"prices .* are not known"):
            read_budget("$5", JudgeChoice({}, "", is_paid=True, has_prices=False))
