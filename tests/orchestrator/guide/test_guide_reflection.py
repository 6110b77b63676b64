"""What becomes of a proposal: its name, its record, and what is found of the rollouts behind it."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
from guided_world import RULE, MissionOnDisk, World, proposal_text, small_settings, small_tickets

from orchestrator.guide.findings import find_in_rollout, verify_rollout
from orchestrator.guide.previewing import exceeding
from orchestrator.guide.reflection import reflection_id
from orchestrator.guide.rollouts import Rollout
from orchestrator.guide.steps import MissionSetup, Results, Steps


@pytest.fixture
def setup(tmp_path: Path) -> MissionSetup:
    return MissionOnDisk(tmp_path, small_settings(tmp_path), small_tickets()).start()[0].setup


def answered(steps: Steps[Any], world: World) -> Any:
    """What steps return when a world answers them."""
    results: Results | None = None
    while True:
        try:
            asked = next(steps) if results is None else steps.send(results)
        except StopIteration as ended:
            return ended.value
        results = world.results(asked)


def test_a_reflection_has_one_name_in_all_equal_runs(setup: MissionSetup, tmp_path: Path) -> None:
    elsewhere = dataclasses.replace(setup.settings.output, root="elsewhere", run_id="another")
    moved = dataclasses.replace(setup, settings=dataclasses.replace(setup.settings, output=elsewhere))
    assert reflection_id(moved, 1, 1) == reflection_id(setup, 1, 1)
    changed = dataclasses.replace(setup, settings=small_settings(tmp_path, runner__shuffle_seed=99))
    names = [reflection_id(setup, 1, 1), reflection_id(setup, 1, 2), reflection_id(changed, 1, 1)]
    assert len(set(names)) == 3


def test_only_the_first_operations_are_applied_and_the_others_have_a_reason(tmp_path: Path) -> None:
    settings = small_settings(tmp_path, reflection__max_operations=1, runner__epochs=1)
    mission, world = MissionOnDisk(tmp_path, settings, small_tickets()), World()
    operation = {"op": "upsert", "key": None, "rationale": "r", "evidence": ["第1组"], "merged_from": []}
    both = [operation | {"text": RULE}, operation | {"text": "Another rule."}]
    world.proposal = lambda number: proposal_text("", operations=both)
    mission.run(world)
    [line] = mission.lines("reflection.jsonl")
    assert line["applied"] and [one["key"] for one in line["accepted_operations"]] == ["G1"]
    assert line["rejected_operations"] == [{"index": 1, "reason": "over max_operations"}]
    assert line["proposal"]["operations"][1]["text"] == "Another rule."
    assert line["shown"] == line["bundle"] and line["accepted_operations"][0]["evidence"] == [line["bundle"][0]]


def test_all_wrong_tickets_for_manual_review_are_flagged_and_not_shown(tmp_path: Path) -> None:
    settings = small_settings(tmp_path, reflection__all_wrong_strategy="manual_review", runner__epochs=1)
    mission, world = MissionOnDisk(tmp_path, settings, small_tickets()), World()
    mission.run(world)
    [line] = mission.lines("reflection.jsonl")
    assert (line["gate"], line["bundle"], len(line["manual_review"])) == ("ineligible", [], 4)
    assert {tuple(one["reasons"]) for one in mission.lines("review.jsonl")} == {("all_wrong", "manual_review")}
    assert world.tasks["openai.propose"] == 0


def test_signals_and_selections_are_of_the_tickets_of_a_rollout(setup: MissionSetup) -> None:
    world, rollout = World(), Rollout(setup, "learning", {"G0": RULE}, 0, setup.tickets.training, 1, 1)
    rolled = rollout.read(world.results(rollout.requests))
    findings = answered(find_in_rollout(rolled, "step1"), world)
    assert all(group.label_free.label_match for group in findings.groups)
    assert {signal.self_consistency for group in findings.groups for signal in group.signals} == {1.0}
    assert answered(verify_rollout(rolled, "step1"), world) == {}, "the settings name no verifier"
    assert math.isclose(sum(rolled.tokens.values()), sum(c.tokens for t in rolled.tickets for c in t.candidates))


def test_an_edit_is_measured_with_the_tickets_that_it_is_given(setup: MissionSetup) -> None:
    world, tickets = World(), setup.tickets.holdout
    world.context = 32 + 19
    assert answered(exceeding(setup, {"G0": "a"}, tickets, 1), world) == ""
    assert "8 prompts or more exceed 19 tokens, the longest has 20" in answered(
        exceeding(setup, {"G0": "a", "G1": "b"}, tickets, 1), world
    )
