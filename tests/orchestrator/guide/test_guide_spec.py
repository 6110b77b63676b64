"""What a mission leaves follows from the specification, the settings, the tickets and the raw answers alone."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import pytest
from guided_world import MISSION, MissionOnDisk, World, noop_text, proposal_text, small_settings, small_tickets
from spec_checker import SpecChecker

from orchestrator.guide.inputs import stage_a_line
from orchestrator.guide.session import write_ingest

WORDS = ("Look at the label.", "A loose cable fails.", "Rust alone is no fault.", "A missing label is a fail.")
POLICIES = ("selected_mismatch_or_all_wrong", "contradictions_only", "contradictions_or_all_wrong")
SEEDS = (106, 111, 158, 5, 29, 181, 104, 196)  # of missions that have every outcome between them


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
        said = right if draw.random() < clever else draw.choice(["pass", "fail", "不通过", "通过。", "FAIL!", "passed"])
        sure = draw.choice(["0.9", "85%", "70", "0.5", "1", "1.5", "0"])
        lines = [f"Verdict: {said}", f"Reason：as seen {draw.randint(1, 9)}", f"confidence: {sure}"]
        return "\n\n".join(lines if draw.random() < 0.9 else lines[1:])

    def _proposed(self, number: int) -> str:
        draw = self.draw
        texts = ["", "t01 is wrong.", "see 第2组", "x" * 301, "unit 1: no label", "two\nlines", "LABEL: look at the"]
        named = [["第1组"], ["第 2 组", "第1组"], ["t01", "第1组"], ["第1组", "第0组"], ["第9组"], []]
        operations = [
            {
                "op": draw.choice(["upsert", "upsert", "remove", "merge"]),
                "key": draw.choice([None, "G0", "G0", "G1", "G1", "G7"]),
                "text": draw.choice([*texts, *5 * WORDS]),
                "rationale": None,
                "evidence": draw.choice(named),
                "merged_from": draw.choice([["G0", "G1"], ["G1", "G2", "G1"], ["G0", "G9"]]),
            }
            for _ in range(draw.randint(0, 5))
        ]  # fmt: skip
        note = draw.choice([*5 * [None], " ", "perhaps"])
        whole = proposal_text("", operations=operations, uncertainty_note=note)
        plain = proposal_text(draw.choice(WORDS), evidence=["第1组"])
        return draw.choice([*6 * [whole], *6 * [plain], noop_text(), whole[:-9], f"```json\n{whole}\n```"])


def noisy_mission(folder: Path, seed: int, holdout: int = 10, **changes: Any) -> MissionOnDisk:
    """Six batches of eight, most of them with a preview."""
    folder.mkdir(exist_ok=True)
    draw = random.Random(seed)
    settings = small_settings(
        folder,
        runner__epochs=3,
        runner__shuffle_seed=seed,
        reflection__eligibility_policy=draw.choice(POLICIES),
        reflection__all_wrong_strategy=draw.choice(["reflect_diagnose", "manual_review"]),
        reflection__batch_size=draw.choice([2, 8]),
        reflection__change_cap_per_epoch=draw.choice([1, 3, 10]),
        reflection__allow_uncertain=draw.random() < 0.3,
        reflection__apply_if_delta=draw.choice([0.0, 0.02]),
        holdout__min_probability=draw.choice([0.0, 0.5, 0.8]),
        holdout__max_false_pass_rise=draw.choice([0.0, 0.2]),
        selection__tie_break=draw.choice(["confidence", "temperature"]),
        sampler__enforce_three_line=False,
        **changes,
    )
    mission = MissionOnDisk(folder, settings, small_tickets(training=18, holdout=holdout))
    write_ingest(mission.path, settings, mission.tickets)
    assert mission.run(NoisyWorld(seed)).is_finished
    return mission


def checker(mission: MissionOnDisk) -> SpecChecker:
    tickets = [stage_a_line(ticket) for ticket in mission.tickets.judged]
    return SpecChecker(mission.path, MISSION, dataclasses.asdict(mission.settings), json.loads(json.dumps(tickets)))


@pytest.fixture(scope="module")
def missions(tmp_path_factory: pytest.TempPathFactory) -> list[MissionOnDisk]:
    root = tmp_path_factory.mktemp("noisy")
    gated = [noisy_mission(root / str(seed), seed) for seed in SEEDS]
    rapid = noisy_mission(root / "rapid", 10, reflection__rapid_mode=True, guidance__retention=99)
    no_holdout = noisy_mission(root / "no_holdout", 10, holdout=0, holdout__fraction=0.0)
    assert [one.value("stats.json")["gate"] for one in (rapid, no_holdout)] == ["rapid", "no_holdout"]
    return [*gated, rapid, no_holdout]


def test_every_artifact_is_what_the_specification_makes_of_the_answers(missions: list[MissionOnDisk]) -> None:
    for mission in missions:
        assert checker(mission).check() == []


def test_the_missions_that_are_checked_hold_every_outcome_of_the_gate(missions: list[MissionOnDisk]) -> None:
    reflections = [line for mission in missions for line in mission.lines("reflection.jsonl")]
    assert {line["gate"] for line in reflections} >= {
        *("applied", "uplift", "probability", "false_pass", "budget", "invalid", "rejected", "uncertain", "noop"),
        *("ineligible", "rapid", "no_holdout"),
    }  # fmt: skip
    applied = [one["op"] for line in reflections if line["applied"] for one in line["accepted_operations"]]
    assert {*applied} == {"upsert", "remove", "merge"}
    reasons = {one["reason"] for line in reflections for one in line["rejected_operations"]}
    assert len(reasons) >= 13, "the ways in which an operation can be invalid"
