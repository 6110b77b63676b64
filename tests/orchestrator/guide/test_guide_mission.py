"""Missions in a world without a farm: what is asked, decided and written, also after a stop.

What a mission leaves follows from the specification, the settings, the tickets and the raw answers alone.
"""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest
from guided_world import MISSION, RULE, MissionOnDisk, World, noop_text, proposal_text
from spec_checker import SpecChecker, artifacts_of

from orchestrator.farm import Parked
from orchestrator.guide.inputs import stage_a_line
from orchestrator.guide.report import guide_tables, progress_of
from orchestrator.guide.rollouts import StepStopped
from orchestrator.guide.run import KIND
from orchestrator.runs.folder import OutputError, OutputFolder
from orchestrator.runs.kinds import PROGRESS_FILE


@pytest.fixture
def on_disk(tmp_path: Path) -> MissionOnDisk:
    return MissionOnDisk(tmp_path)


@pytest.fixture(scope="module")
def world() -> World:
    """Of the finished mission; what it was asked is in it."""
    return World()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, world: World) -> MissionOnDisk:
    """A mission that has learned its rule, and that nothing has disturbed."""
    mission = MissionOnDisk(tmp_path_factory.mktemp("finished"))
    assert mission.run(world)
    return mission


def test_the_counts_are_those_of_the_artifacts(finished: MissionOnDisk) -> None:
    """The verifier scores each candidate and decides nothing."""
    guidance, stats = finished.value("guidance.json")[MISSION], finished.value("stats.json")
    assert (guidance["step"], guidance["experiences"]) == (1, {"G0": "Look closely.", "G1": RULE})
    assert stats["is_finished"] and stats["batches"] == {"size": 8, "per_epoch": 1, "done": 2, "total": 2}
    assert stats["reflections"]["acceptance"] == {"count": 1, "of": 1, "rate": 1.0}
    assert stats["precision"]["paired"] == stats["precision"]["unpaired"] == {"count": 1, "of": 1, "rate": 1.0}
    assert stats["recall"] == {"count": 1, "of": 4, "rate": 0.25}
    before, after = stats["holdout"]["before"], stats["holdout"]["after"]
    assert (before["majority"]["balanced_accuracy"], after["majority"]["balanced_accuracy"]) == (0.5, 1.0)
    assert (before["greedy"]["false_pass_rate"], after["greedy"]["false_pass_rate"]) == (1.0, 0.0)
    every, held_out = (stats["against_greedy"][name] for name in ("all_tickets", "held_out_first_guidance"))
    warnings = {"no_valid_candidate": 0, "malformed_candidates": 0}
    assert held_out == {
        "tickets": 8, "pass_delta": -4, "fail_delta": 4, "right_delta": 4, "pass_to_fail": 4, "fail_to_pass": 0,
        "warnings": warnings,
    }  # fmt: skip
    assert every == {**dict.fromkeys(held_out, 0), "tickets": 16, "warnings": warnings}
    assert stats["cost_usd"] == pytest.approx(0.001 * (stats["critiques"]["asked"] + 1))
    lines = [*finished.lines("step_1/trajectories.jsonl"), *finished.lines("final/trajectories.jsonl")]
    assert [line["verifier_score"] for line in lines] == [len(line["response_text"]) for line in lines]


def test_status_and_page_have_the_figures_of_the_files(tmp_path: Path, finished: MissionOnDisk) -> None:
    """The rates of two missions are of their sums."""
    stats = finished.value("stats.json")
    none = {"count": 0, "of": 4, "rate": 0.0}
    unchanged = {**stats, "reflections": {"acceptance": none}, "recall": none}
    OutputFolder(tmp_path).write_json(PROGRESS_FILE, progress_of([stats, unchanged], is_finished=True))
    progress = KIND.progress(tmp_path)
    assert (progress.unit, progress.done, progress.total, progress.is_finished) == ("batches", 4, 4, True)
    assert progress.figures == {
        "proposals": 5.0, "applied": 1.0, "wrong": 8.0, "acceptance_rate": 0.2, "precision_paired": 1.0,
        "precision_unpaired": 1.0, "recall": 1 / 8, "format_validity": 1.0,
    }  # fmt: skip
    missions, decisions, experiences = guide_tables(finished.path.parent)
    [row] = [dict(zip(missions.columns, row, strict=True)) for row in missions.rows]
    assert (row["mission"], row["batches"], row["applied"]) == (MISSION, "2 of 2", 1)
    assert row["balanced accuracy, first"] == "50.0 %"
    assert [(row[0], row[1], row[4]) for row in decisions.rows] == [(1, "yes", 50.0), (2, "no", None)]
    assert [row[:2] for row in experiences.rows] == [["[G0]", "Look closely."], ["[G1]", RULE]]


def test_five_unusable_replies_in_a_row_park_and_the_next_start_goes_on_from_there(on_disk: MissionOnDisk) -> None:
    world = World()
    world.critique = lambda: "never JSON"
    for _ in range(6):
        with pytest.raises(Parked, match=f"mission {MISSION}: 5 replies in a row"):
            on_disk.run(world)
    assert on_disk.run(world)
    # Two batches of 16 critiques each; the proposals in between can be used and are counted.
    assert on_disk.start().journal.parked_at == [5, 10, 15, 21, 26, 31]
    assert on_disk.value("stats.json")["critiques"] == {"asked": 32, "rejected": 32}
    rejected = [line for line in on_disk.lines("step_1/trajectories.jsonl") if "critic_rejected" in line]
    assert {line["critic_rejected"]["reply"] for line in rejected} == {"never JSON"}


def test_a_prompt_over_the_budget_stops_the_mission_before_anything_is_asked(on_disk: MissionOnDisk) -> None:
    world = World()
    world.context = 32 + 8
    with pytest.raises(StepStopped, match=r"8 tokens.*t00"):
        on_disk.run(world)
    assert set(world.tasks) == {"gpu.prompt_lengths"}
    # With room for one experience an edit with which prompts would be too long is refused, and the mission goes on.
    world = World()
    world.context = 32 + 15
    assert on_disk.run(world)
    assert [line["gate"] for line in on_disk.lines("reflection.jsonl")] == ["too_long", "too_long"]
    assert on_disk.value("stats.json")["precision"]["unpaired"]["of"] == 0, "no edit was applied"


def test_a_batch_without_any_valid_candidate_stops_the_mission_and_shows_what_came(tmp_path: Path) -> None:
    mission, world = MissionOnDisk(tmp_path), World()
    world.verdict = lambda system, user, seed: "I think it passes."
    with pytest.raises(StepStopped, match="step_1/rollout"):
        mission.run(world)
    assert {line["response_text"] for line in mission.lines("step_1/rollout.jsonl")} == {"I think it passes."}
    # When it is not enforced, then the tickets count as wrong, are for review, and the mission goes on.
    lenient = MissionOnDisk(tmp_path, sampler__enforce_three_line=False)
    assert lenient.run(world)
    assert {line["reasons"][0] for line in lenient.lines("review.jsonl")} == {"no_valid_candidate"}
    assert lenient.value("stats.json")["final"]["right"] == 0
    assert world.tasks["openai.critique"] == 0, "malformed candidates are not criticised"


@pytest.mark.parametrize("answers", [0, 3, 20, 40, 50, 80])
def test_a_mission_that_is_cut_comes_to_the_same_artifacts(
    on_disk: MissionOnDisk, answers: int, finished: MissionOnDisk, world: World
) -> None:
    cut = World()

    def watch() -> None:
        if len(cut.answers) >= answers:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        on_disk.run(cut, watch)
    assert on_disk.run(cut)
    assert cut.answers.keys() == world.answers.keys(), "nothing else is asked"
    assert artifacts_of(on_disk.path.parent) == artifacts_of(finished.path.parent)


@pytest.mark.parametrize("asked_for", ["learning", "final"])
def test_an_edit_by_hand_ends_a_mission_also_when_it_applies_nothing_after_it(tmp_path: Path, asked_for: str) -> None:
    mission, world = MissionOnDisk(tmp_path, runner__epochs=1), World()
    world.proposal = noop_text

    def watch() -> None:
        if world.order and world.order[-1].startswith(f"{MISSION}/{asked_for}/"):
            path = mission.path / "guidance.json"
            path.write_text(path.read_text().replace("Look closely.", "Look away."))

    with pytest.raises(OutputError, match="restore the newest file"):
        mission.run(world, watch)
    assert (mission.path / "final").exists() == (asked_for == "final")


WORDS = ("Look at the label.", "A loose cable fails.", "Rust alone is no fault.", "A missing label is a fail.")
POLICIES = ("selected_mismatch_or_all_wrong", "contradictions_only", "contradictions_or_all_wrong")
SEEDS = (4, 7, 26, 34, 36)  # of missions that have every outcome and policy between them


class NoisyWorld(World):
    """Answers of every kind, and proposals of every kind, drawn by one seed."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.draw = random.Random(seed)
        self.verdict, self.proposal = self._judged, self._proposed

    def _judged(self, system: str, user: str, seed: int) -> str:
        draw = random.Random(f"{user}{seed}")
        right = "fail" if "no label" in user else "pass"
        clever = 0.3 + 0.2 * sum(word in user for word in WORDS)
        said = right if draw.random() < clever else draw.choice(["pass", "fail", "不通过", "通过", "passed", ""])
        return f"Verdict: {said}\nReason: as seen {draw.randint(1, 9)}\nConfidence: 0.{draw.randint(1, 9)}"

    def _proposed(self) -> str:
        draw = self.draw
        operations = [
            {
                "op": draw.choice(["upsert", "upsert", "remove", "merge"]),
                "key": draw.choice([None, "G0", "G1", "G7"]),
                "text": draw.choice(["", "t01 is wrong.", "unit 1: no label", *WORDS, *WORDS]),
                "rationale": None,
                "evidence": draw.choice([["第1组"], ["第 2 组", "t01", "第1组"], ["第9组"]]),
                "merged_from": draw.choice([["G0", "G1"], ["G1", "G2", "G1"]]),
            }
            for _ in range(draw.randint(0, 5))
        ]
        whole = proposal_text("", operations=operations, uncertainty_note=draw.choice([*5 * [None], " ", "perhaps"]))
        return draw.choice([*6 * [whole], *6 * [proposal_text(draw.choice(WORDS))], noop_text(), whole[:-9]])


def noisy_mission(folder: Path, seed: int, holdout: int = 10, **changes: Any) -> MissionOnDisk:
    """Six batches of eight, most of them with a preview."""
    folder.mkdir()
    draw = random.Random(seed)
    drawn = {
        "reflection__eligibility_policy": draw.choice(POLICIES),
        "reflection__all_wrong_strategy": draw.choice(["reflect_diagnose", "manual_review"]),
        "reflection__batch_size": draw.choice([2, 8]),
        "reflection__change_cap_per_epoch": draw.choice([1, 3, 10]),
        "reflection__allow_uncertain": draw.random() < 0.3,
        "reflection__apply_if_delta": draw.choice([0.0, 0.02]),
        "holdout__min_probability": draw.choice([0.0, 0.5, 0.8]),
        "holdout__max_false_pass_rise": draw.choice([0.0, 0.2]),
    }
    fixed = {"runner__epochs": 3, "runner__shuffle_seed": seed, "sampler__enforce_three_line": False}
    mission = MissionOnDisk(folder, training=18, holdout=holdout, **drawn, **fixed, **changes)
    assert mission.run(NoisyWorld(seed))
    return mission


def test_every_artifact_is_what_the_specification_makes_of_the_answers(tmp_path: Path) -> None:
    missions = [
        *(noisy_mission(tmp_path / str(seed), seed) for seed in SEEDS),
        noisy_mission(tmp_path / "rapid", 10, reflection__rapid_mode=True),
        noisy_mission(tmp_path / "no_holdout", 10, holdout=0, holdout__fraction=0.0),
    ]
    for mission in missions:
        tickets = [stage_a_line(ticket) for ticket in mission.tickets.judged]
        assert SpecChecker(mission.path, MISSION, dataclasses.asdict(mission.settings), tickets).check() == []

    reflections = [line for mission in missions for line in mission.lines("reflection.jsonl")]
    assert {line["gate"] for line in reflections} == {
        *("applied", "uplift", "probability", "false_pass", "budget", "invalid", "rejected", "uncertain", "noop"),
        *("ineligible", "rapid", "no_holdout"),
    }, "the missions have every outcome"
    applied = {one["op"] for line in reflections if line["applied"] for one in line["accepted_operations"]}
    assert applied == {"upsert", "remove", "merge"}
