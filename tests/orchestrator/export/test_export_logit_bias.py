"""Lists of biases: relative to what most tokens have, and the tokens that matter most within OpenAI's limits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from exported_run import CHECK, DELTAS, HASH, NODE, OTHER, biases_of, labels_of, rendered, write_answers, write_run

from orchestrator.export.logit_bias import (
    OPENAI_TOKENS,
    BiasEffect,
    bias_document,
    choose_biases,
    openai_document,
    relative_biases,
)
from orchestrator.export.steering import read_steering


def test_the_whole_list_changes_the_logits_by_as_much_but_for_a_constant(tmp_path: Path) -> None:
    found = json.loads(bias_document(read_steering(write_run(tmp_path), NODE), "Be brief."))
    biases = np.zeros(len(labels_of()))
    biases[list(map(int, found["logit_bias"]))] = list(found["logit_bias"].values())
    wanted = biases_of(OTHER).astype(np.float64)
    assert np.allclose(biases - biases[2], wanted - wanted[2])
    # the half of the tokens that are in the largest cluster are left out
    assert 0 < len(found["logit_bias"]) < 0.6 * len(biases) and found["about"]["tokens"] == len(found["logit_bias"])
    about = found["about"]
    assert (about["model"], about["tokenizer_sha256"], about["individual"]) == ("a model", CHECK["tokenizer"], NODE)
    assert (about["system_prompt"], about["clustering"]) == ("Be brief.", HASH)


def test_biases_are_relative_to_that_of_most_tokens(tmp_path: Path) -> None:
    biases = relative_biases(read_steering(write_run(tmp_path)))
    assert np.array_equal(biases, biases_of(DELTAS).astype(np.float64))  # most have 0 already
    assert relative_biases(read_steering(tmp_path, NODE))[2] == OTHER["0"] - OTHER["2"]


def test_the_tokens_that_matter_most_are_chosen() -> None:
    # given biases of seven tokens, of which the answers use four
    biases = np.array([0.0, 1.0, -2.0, 0.5, 3.0, -3.0, 0.0])
    counts = {0: 100, 1: 10, 2: 4, 3: 40, 6: 5, 99: 1000}
    # then |bias| x count decides, and beyond what is used the larger bias; tokens without a bias are none
    assert choose_biases(biases, counts, 3).chosen == (3, 1, 2)
    assert choose_biases(biases, counts, 2).share_of_weight == pytest.approx(30 / 38)
    every = choose_biases(biases, counts, 300)
    assert (every.chosen, every.share_of_weight) == ((3, 1, 2, 4, 5), 1.0)
    assert choose_biases(biases, {}, 1).chosen == (4,)


def test_openai_gets_no_more_and_no_larger_biases_than_it_takes(tmp_path: Path) -> None:
    steering = read_steering(write_run(tmp_path))
    biases = np.linspace(-500, 500, len(labels_of()))
    chosen = choose_biases(biases, dict.fromkeys(range(len(biases)), 1))
    effect = BiasEffect(40, "validation", 81.0, 41.0, 51.0)
    found = json.loads(openai_document(steering, chosen, "Be brief.", effect))
    assert len(found["logit_bias"]) == OPENAI_TOKENS == found["about"]["tokens"]
    assert {abs(bias) for bias in found["logit_bias"].values()} == {100.0}
    assert "at most 300 tokens" in found["about"]["limits"] and found["about"]["of"] == len(biases)
    # and the file states what it keeps
    assert found["about"]["share_of_weight"] == pytest.approx(chosen.share_of_weight, abs=1e-4)
    assert found["about"]["effect"]["share_of_saving_kept"] == 0.75


def test_a_saving_of_nothing_has_no_share() -> None:
    assert BiasEffect(40, "validation", 81.0, 80.8, 70.0).share_of_saving_kept is None
    assert BiasEffect(40, "validation", 50.0, 60.0, 55.0).share_of_saving_kept == 0.5


def test_a_runs_list_holds_the_tokens_of_its_answers(tmp_path: Path) -> None:
    # given a run whose answers are of few tokens
    run = write_answers(
        write_run(tmp_path, check={**CHECK, "config": "", "tokenizer": ""}), [("Sales were 12.", "12.")]
    )
    found = json.loads(rendered("openai", run))
    # then those with a bias are in its list, the token that ends the answers among them, and they are all the weight
    assert {"2"} < set(found["logit_bias"]) and found["about"]["share_of_weight"] == 1.0
    assert len(found["logit_bias"]) == OPENAI_TOKENS
    assert found["logit_bias"]["2"] == DELTAS["0"]
    assert found["about"]["effect"].startswith("not measured") and found["about"]["system_prompt"] == "Be brief."
