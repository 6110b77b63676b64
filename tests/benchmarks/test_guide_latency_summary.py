"""The figures of measured times."""

from __future__ import annotations

from benchmarks.gpu.guide_choice import choices
from benchmarks.gpu.guide_latency import latency_row, summary
from benchmarks.gpu.guide_reflections import shares_of


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

    units = [unit("full", "pppp", "pfpf", "pfpf"), unit("half", "ffff", "pppf", "pfpf"), unit("one", *["pppp"] * 3)]
    found = choices(units)
    assert [(one.shape, one.wording, one.gain) for one in found[:2]] == [
        ("half", "plain", 0.25),
        ("full", "plain", 0.0),
    ]
    assert found[-1].gain == -0.5 and len(found) == 6


def test_a_choice_that_gains_in_each_language_comes_first_and_a_cut_one_is_none() -> None:
    def unit(shape: str, mission: int, planted: str) -> dict[str, object]:
        verdicts = {"none": "pppp", "initial": "pppp", "planted:plain": planted}
        return {
            "unit": {"stage": "verdicts", "shape": shape, "prompt": "turns", "mission": mission},
            "found": {"labels": "pfpf", "conditions": {n: {"verdicts": v} for n, v in verdicts.items()}},
        }

    english, both = [unit("one", 0, "pfpf"), unit("one", 2, "pppp")], [unit("two", m, "pfpp") for m in (0, 2)]
    found = choices([*english, *both, unit("half", 0, "pfpf")])
    assert [(one.shape, one.gain, one.is_in_each_language) for one in found] == [
        ("two", 0.25, True),
        ("one", 0.25, False),
    ]
    assert found[1].gains == {"all": 0.25, "en": 0.5, "zh": 0.0}


def test_precision_and_recall_are_summed_over_missions() -> None:
    stats = {
        "reflections": {"acceptance": {"count": 2, "of": 8}},
        "precision": {"paired": {"count": 2, "of": 2}, "unpaired": {"count": 1, "of": 2}},
        "recall": {"count": 5, "of": 10},
        "format": {"count": 99, "of": 100},
        "critiques": {"asked": 40, "rejected": 4},
    }
    mission = {"stats": stats, "planted": ["a", "b", "c"], "proposed_rules": ["a", "b"], "learned_rules": ["a"]}
    cut = {"stats": None, "planted": ["a", "b", "c"], "proposed_rules": [], "learned_rules": []}
    rows = {row[0]: row[1:4] for row in shares_of([mission, mission, cut])}
    assert rows["precision on the next batch, paired"] == ["4", "4", "100.0"]
    assert rows["planted rules that a proposal states"] == ["4", "9", "44.4"]
    assert rows["critiques that could not be used"] == ["8", "80", "10.0"]
    assert {row[0]: row[3] for row in shares_of([cut])}["edits applied, of those proposed"] == "-"
