"""The answers that make clusters by waste: from a collection, or from the answers of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.report.statistics import JudgedAnswer
from orchestrator.report.systems import MeasuredSystem, Measurement
from orchestrator.runs.baselines import Baselines
from orchestrator.runs.clustering import (
    collected_sides,
    short_prompts,
    sides_of,
)
from orchestrator.settings import SettingsError, load_settings
from tasks.models import Sides
from tasks.plan import Evaluations

ROOT = Path(__file__).parents[3]
WASTE = ["CLUSTERS_BY=waste", "INITIAL_DELTAS_PATH=zero"]


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def judged(example: str, text: str, is_correct: bool = True) -> JudgedAnswer:
    return JudgedAnswer(example, len(text.split()), is_correct, text, "?", "", "")


PLAIN = (judged("q1", "The answer to this is seven."), judged("q2", "The answer to that is nine.", is_correct=False))


def test_the_short_side_is_what_is_right_and_shorter_than_the_plain_answer() -> None:
    short = (
        judged("q1", "Seven."),
        judged("q1", "It is seven."),
        judged("q1", "The answer to this question is seven, I think."),
        judged("q2", "Ten.", is_correct=False),
    )
    assert sides_of(PLAIN, short, ["7", "9"]) == Sides(
        ("The answer to this is seven.", "The answer to that is nine."), ("Seven.", "It is seven.")
    )


def test_the_most_right_prompts_that_are_clearly_shorter_give_the_short_answers() -> None:
    def system(name: str, tokens: int, right: int) -> MeasuredSystem:
        correct = tuple(number < right for number in range(8))
        measured = Measurement(tuple(f"q{number}" for number in range(8)), (tokens,) * 8, correct, 0.0)
        return MeasuredSystem(name, "plain" if name == "none" else "prompt", name, (), measured)

    def chosen(*systems: MeasuredSystem) -> list[str]:
        plain = system("none", 40, 6)
        assert plain.validation is not None
        baselines = Baselines("validation", (plain, *systems), "none", plain.validation, Evaluations())
        return [one.name for one in short_prompts(baselines)]

    wordy = system("wordy", 39, 8)
    best, good, worst = system("best", 30, 7), system("good", 12, 5), system("worst", 2, 1)
    assert chosen(wordy, worst, good, best) == ["best", "good"]
    # Where there are not enough, a longer one is better than none
    assert chosen(wordy, good) == ["good", "wordy"]


def test_clusters_by_waste_take_the_answers_of_a_collection_where_one_is_named(tmp_path: Path) -> None:
    assert collected_sides(load_settings(ROOT / "configs" / "embedded.config", WASTE)) is None
    path = tmp_path / "phase0_data.json"
    pairs = [{"verbose_answer": "It is so.", "compressed_answer": "Yes."}]
    path.write_text(json.dumps({"splits": {"train": [{"retained_pairs": pairs}]}}))
    settings = load_settings(ROOT / "configs" / "embedded.config", [*WASTE, f"CLUSTERS_FROM={path}"])
    assert collected_sides(settings) == Sides(("It is so.",), ("Yes.",))
    # A file that goes between is reported as a setting
    path.unlink()
    with pytest.raises(SettingsError, match="CONFIG_CLUSTERS_FROM"):
        collected_sides(settings)
