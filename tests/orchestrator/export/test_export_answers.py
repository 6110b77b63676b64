"""Which tokens a run's answers use, and whether the model on this machine is the run's."""

from __future__ import annotations

from pathlib import Path

import pytest
from exported_run import CHECK, write_answers, write_run

from orchestrator.export.answers import count_answer_tokens, model_folder
from orchestrator.output import OutputError
from orchestrator.results import RunResults
from tasks.gpu.processor_check import model_hashes
from tasks.gpu.processor_template import NO_CHECK, ModelCheck
from workers.embedded.models import embedded_model


def test_the_tokens_of_both_sides_are_counted_and_the_end_of_each_answer(tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    run = write_answers(write_run(tmp_path), [("Sales were 12.", "12."), ("It is 12.", "")])
    counts = count_answer_tokens(RunResults.open(run), embedded_model(), [2])
    tokenizer = Tokenizer.from_file(str(embedded_model() / "tokenizer.json"))
    assert counts[2] == 4
    assert counts[tokenizer.token_to_id("1")] == counts[tokenizer.token_to_id("2")] == 3
    assert counts.total() == 4 + sum(
        len(tokenizer.encode(text).ids) for text in ("Sales were 12.", "12.", "It is 12.", "")
    )


def test_a_run_without_answers_or_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    with pytest.raises(OutputError, match="has no answers to count"):
        count_answer_tokens(RunResults.open(run), embedded_model(), [2])
    write_answers(run, [("a", "b")])
    (tmp_path / "model").mkdir()
    with pytest.raises(OutputError, match=r"tokenizer\.json cannot be read"):
        count_answer_tokens(RunResults.open(run), tmp_path / "model", [2])


def test_the_model_is_that_of_the_settings_or_the_one_that_is_given(tmp_path: Path) -> None:
    run = write_answers(write_run(tmp_path / "run"), [("a", "b")])
    assert model_folder(RunResults.open(run), NO_CHECK, None) == embedded_model()
    check = ModelCheck(**{**CHECK, **model_hashes(str(embedded_model()))})
    assert model_folder(RunResults.open(run), check, embedded_model()) == embedded_model()
    with pytest.raises(OutputError, match="has not the model of the run: its config and tokenizer is not the same"):
        model_folder(RunResults.open(run), CHECK, None)
    (run / "config").write_text('CONFIG_TARGET_MODEL="some/model"\n')
    with pytest.raises(OutputError, match="'some/model' is not on this machine; --model names a folder"):
        model_folder(RunResults.open(run), check, None)
