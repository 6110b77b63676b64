"""What a list of biases does to the answers of a model that is asked on this machine."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from answer_runs import embedded_target
from server_target import TINY_SERVER, server_target
from small_model import make_small_model

from orchestrator.export.effect import mean_tokens, write_biases
from orchestrator.output import OutputError
from tasks.models import Example
from workers.embedded.models import embedded_model

EXAMPLES = [Example(str(n), "", f"Question {n}?", "") for n in range(3)]


def test_biases_are_written_as_clusters(tmp_path: Path) -> None:
    biases = np.array([0.0, -1.5, 0.0, 2.25, -1.5])
    deltas, clustering = write_biases(biases, tmp_path)
    labels = np.load(tmp_path / f"{clustering}.npy", allow_pickle=False)
    assert labels.dtype == np.uint8 and np.array_equal(np.take(deltas, labels), biases)
    deltas, clustering = write_biases(np.arange(300.0), tmp_path)
    assert np.load(tmp_path / f"{clustering}.npy", allow_pickle=False).dtype == np.uint16


def test_a_server_that_does_not_start_is_one_line() -> None:
    target = dataclasses.replace(server_target(f"{TINY_SERVER} --fail 'out of memory'"), model=str(embedded_model()))
    with pytest.raises(OutputError, match=r"(?s)cannot be asked on this machine: .*out of memory"):
        mean_tokens(target, "", EXAMPLES, {"plain": None}, lambda line: None)


@pytest.mark.long
def test_the_answers_of_each_list_are_measured(tmp_path: Path) -> None:
    # Given a list that ends each turn at once, and one that never does
    ended, endless = np.zeros(49152), np.zeros(49152)
    ended[2], endless[2] = 500.0, -500.0
    said: list[str] = []
    arms = {"plain": None, "ended": ended, "endless": endless}
    found = mean_tokens(embedded_target(make_small_model(tmp_path)), "", EXAMPLES, arms, said.append)
    assert (found["ended"], found["endless"]) == (0.0, 8.0) and 0 < found["plain"] <= 8
    assert said == ["3 questions", "3 questions with ended", "3 questions with endless"]
