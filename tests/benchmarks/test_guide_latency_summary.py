"""The figures of measured times."""

from __future__ import annotations

from benchmarks.gpu.guide_choice import choices
from benchmarks.gpu.guide_latency import latency_row, summary


def test_times_have_a_median_and_a_95th_percentile() -> None:
    found = summary([0.001 * place for place in range(101)])
    assert latency_row("candidates", found) == ["candidates", "101", "50", "95", "100"]


def test_the_choice_is_where_the_planted_rules_gain_most_over_the_better_of_none_and_initial() -> None:
    def unit(shape: str, none: str, initial: str, planted: str) -> dict[str, object]:
        conditions = {"none": none, "initial": initial, "planted:plain": planted, "planted:quoted": none}
        return {
            "unit": {"stage": "verdicts", "shape": shape, "prompt": "plain", "mission": 0},
            "found": {"labels": "pfpf", "conditions": {n: {"verdicts": v} for n, v in conditions.items()}},
        }

    found = choices(
        [unit("full", "pppp", "pfpf", "pfpf"), unit("half", "ffff", "pppf", "pfpf"), unit("one", *["pppp"] * 3)]
    )
    assert [(one.shape, one.wording, one.gain) for one in found[:2]] == [
        ("half", "plain", 0.25),
        ("full", "plain", 0.0),
    ]
    assert found[-1].gain == -0.5 and len(found) == 6
