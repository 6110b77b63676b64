"""What the farm's benchmark on a card decides before and after its run: the judge, and what is sent directly."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from benchmarks.gpu import common, farm
from benchmarks.gpu.direct import DirectResult, steady_rate
from tasks.gpu.target import GenerateRequest


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [{"answer": "72"}, {"answer": "-11.92%"}, {"answer": "the pension plan"}]
    path = tmp_path / "mixed.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


def test_a_judge_by_numbers_is_refused_where_a_right_answer_has_none(data: Path) -> None:
    with pytest.raises(
        SystemExit, match=r"^mixed.jsonl: 1 of 3 right answers have no number, such as 'the pension plan'"
    ):
        common.refuse_misfit("exact_number", data, 100)
    common.refuse_misfit("exact_number", data, 2)
    common.refuse_misfit(common.RULE_JUDGE, data, 100)


def test_a_setting_of_the_judge_wins_over_the_option() -> None:
    options = argparse.Namespace(judge=common.RULE_JUDGE, set=[])
    assert common.judge_of(options) == common.RULE_JUDGE
    options.set.append("JUDGE=exact_number")
    assert common.judge_of(options) == "exact_number"


def test_a_part_of_the_individuals_is_spread_over_all_and_keeps_all_their_requests() -> None:
    def asked(individual: int, question: int) -> GenerateRequest:
        return GenerateRequest((question,), 8, 0.0, 1.0, 1, (2,), deltas=(float(individual),), clustering="c")

    requests = [asked(individual, question) for individual in range(10) for question in range(3)]
    sent = farm.part_of(requests, 0.2)
    assert [(request.deltas, request.input_ids[0]) for request in sent] == [
        ((individual,), question) for individual in (0.0, 5.0) for question in range(3)
    ]
    assert farm.part_of(requests, 1) == requests and farm.part_of([], 0.2) == []


def test_a_direct_rate_of_a_part_is_that_of_a_full_server() -> None:
    # Given eight answers of 10 tokens, two in flight; the first and the last ones take longer
    answers = [(at, 10) for at in (5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 14.0, 20.0)]
    # Then the steady rate is that of the four between the second answer and the sixth
    assert steady_rate(answers, 2) == 10.0
    assert steady_rate(answers[:5], 2) is None
    driven = DirectResult(2, 20.0, 80, 10.0)
    assert (farm.directly(driven, 1), farm.directly(driven, 0.5)) == (4.0, 10.0)
