"""What an export reads of a run's folder: the winner's or an individual's deltas; a damaged file is one clear line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from exported_run import CHECK, DELTAS, HASH, NODE, OTHER, WORDS, biases_of, labels_of, write_run

from orchestrator.export.steering import parse_processor, read_steering
from orchestrator.output import OutputError
from tasks.gpu.processor import render_processor
from tasks.gpu.processor_template import ModelCheck


def test_the_winner_is_what_the_processor_holds(tmp_path: Path) -> None:
    steering = read_steering(write_run(tmp_path))
    assert (steering.deltas, steering.clustering, steering.check) == (DELTAS, HASH, CHECK)
    assert np.array_equal(steering.labels, labels_of()) and np.array_equal(steering.biases, biases_of(DELTAS))
    assert [one["description"] for one in steering.descriptions] == [one["description"] for one in WORDS]
    # and what is written of it again is the same file
    again = render_processor(steering.deltas, steering.labels, HASH, steering.descriptions, steering.check)
    assert again == (tmp_path / "processor_best.py").read_text()


def test_an_individual_has_its_own_deltas_and_no_answers_of_the_winner(tmp_path: Path) -> None:
    steering = read_steering(write_run(tmp_path), NODE)
    assert (steering.deltas, steering.node) == (OTHER, NODE)
    assert steering.check == {**CHECK, "answers": []}
    assert read_steering(tmp_path, "g0_pop0_pre").check == CHECK  # the same deltas give the same answers


def test_the_least_number_of_tokens_is_that_of_the_runs_steered_answers(tmp_path: Path) -> None:
    # given a run whose winner steers nothing, so that its own answers had no least number of tokens
    run = write_run(tmp_path)
    (run / "config").write_text("CONFIG_STEERED_MIN_NEW_TOKENS=14\n")
    assert (read_steering(run).min_new_tokens, read_steering(run, NODE).min_new_tokens) == (0, 14)
    (run / "config").write_text("CONFIG_STEERED_MIN_NEW_TOKENS=-1\n")
    with pytest.raises(OutputError, match="CONFIG_STEERED_MIN_NEW_TOKENS is '-1', and no number"):
        read_steering(run, NODE)


def test_labels_of_two_bytes(tmp_path: Path) -> None:
    labels = np.arange(700, dtype=np.uint16)
    deltas = {str(i): i / 7 for i in range(700)}
    steering = parse_processor(render_processor(deltas, labels, HASH, []))
    assert np.array_equal(steering.labels, labels) and steering.deltas == deltas


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("DELTAS = {", "DELTAS = ["), "is no generated processor"),
        (('LABEL_TYPE = "uint8"', 'LABEL_TYPE = "object"'), "is no generated processor"),
        (('LABELS = """\n', 'LABELS = """\nAAAA'), "packed data are damaged"),
        (('"0": 1.5', '"0": "1.5 tokens"'), "is no generated processor"),
        (('"0": 1.5', '"0": 1e9'), "deltas of clusters 0"),
        (('"4": 0.5,', ""), "below 4"),
        (("DELTAS = {", "DELTAS = dict() or {"), "DELTAS"),
    ],
)
def test_a_damaged_processor_is_refused_with_its_name(tmp_path: Path, change: tuple[str, str], sentence: str) -> None:
    file = write_run(tmp_path) / "processor_best.py"
    assert change[0] in file.read_text()
    file.write_text(file.read_text().replace(*change))
    with pytest.raises(OutputError, match=sentence) as raised:
        read_steering(tmp_path)
    assert str(file) in str(raised.value)


def test_no_least_number_of_tokens_is_below_0(tmp_path: Path) -> None:
    write_run(tmp_path, ModelCheck(**{**CHECK, "min_new_tokens": -1}))
    with pytest.raises(OutputError, match="min_new_tokens: -1 must be at least 0"):
        read_steering(tmp_path)


def test_a_folder_that_has_nothing_to_export(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="holds no run"):
        read_steering(tmp_path)
    with pytest.raises(OutputError, match="'collect', which finds no deltas"):
        read_steering(write_run(tmp_path / "collected", kind="collect"))
    begun = write_run(tmp_path / "begun")
    (begun / "processor_best.py").unlink()
    with pytest.raises(OutputError, match=r"no processor_best\.py yet"):
        read_steering(begun)
    with pytest.raises(OutputError, match="no individual 'g9_pop0_pre'"):
        read_steering(write_run(tmp_path / "run"), "g9_pop0_pre")
