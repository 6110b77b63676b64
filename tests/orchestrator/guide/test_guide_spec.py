"""What a mission leaves follows from the specification, the settings, the tickets and the raw answers alone."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

from guided_world import MISSION, MissionOnDisk, World, noop_text, proposal_text
from spec_checker import SpecChecker

from orchestrator.guide.inputs import stage_a_line

WORDS = ("Look at the label.", "A loose cable fails.", "Rust alone is no fault.", "A missing label is a fail.")
POLICIES = ("selected_mismatch_or_all_wrong", "contradictions_only", "contradictions_or_all_wrong")
SEEDS = (6, 7, 12, 25, 60)  # of missions that have every outcome between them


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
