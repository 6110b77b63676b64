"""Critic and reflector: who is asked about what, and what becomes of replies and proposals."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from guided_world import RULE, MissionOnDisk, World, proposal_text, small_settings, small_tickets

from orchestrator.guide.artifacts import reflection_id
from orchestrator.guide.reflecting import TooManyRejected, chosen_candidates
from orchestrator.guide.rollouts import Rollout
from orchestrator.guide.settings import PrefilterSettings
from tasks.guide.choose import SelectionRule, judge
from tasks.guide.ticket import read_candidate


@pytest.fixture
def on_disk(tmp_path: Path) -> MissionOnDisk:
    return MissionOnDisk(tmp_path, small_settings(tmp_path), small_tickets())


def test_without_a_filter_the_first_valid_candidates_are_criticised_with_one_the_wrong_and_sure_ones(
    on_disk: MissionOnDisk,
) -> None:
    replies = [("pass", 0.9), ("fail", 0.5), None, ("fail", 0.8), ("pass", 0.95), ("fail", 0.8)]
    texts = ["Verdict: {}\nReason: r\nConfidence: {}".format(*reply) if reply else "" for reply in replies]
    candidates = tuple(read_candidate(i, 0, i, text, 3, "stop") for i, text in enumerate(texts))
    found = judge(small_tickets().training[0], candidates, SelectionRule("confidence", ()))  # its label is pass

    def chosen(top_k: int | None, most: int) -> list[int]:
        critic = dataclasses.replace(on_disk.settings.critic, prefilter=PrefilterSettings(top_k), max_candidates=most)
        return [candidate.index for candidate in chosen_candidates(found, critic)]

    assert chosen(None, 3) == [0, 1, 3]
    assert chosen(4, 6) == [3, 5, 1, 4], "wrong ones first, then the surer, then the lower index"
    assert chosen(6, 2) == [3, 5]


def test_an_unusable_critique_is_kept_with_its_reason_and_the_others_go_on(on_disk: MissionOnDisk) -> None:
    world = World()
    world.critique = lambda number: "```json" if number == 1 else json.dumps({"summary": "s", "critique": "c"})
    on_disk.run(world)
    lines = [line for line in on_disk.lines("step_1/trajectories.jsonl") if "critic_by" in line]
    assert len(lines) == 8 * 2
    [rejected] = [line for line in lines if "critic_rejected" in line]
    assert rejected["critic_rejected"]["reply"] == "```json" and "critic" not in rejected
    assert on_disk.value("stats.json")["critiques"]["rejected"] == 1


def test_a_reflection_has_one_name_in_all_equal_runs(on_disk: MissionOnDisk, tmp_path: Path) -> None:
    mission = on_disk.start()[0]
    elsewhere = dataclasses.replace(mission.setup.settings.output, root="elsewhere", run_id="another")

    def name(epoch: int, step: int, **changes: Any) -> str:
        settings = dataclasses.replace(mission.setup.settings, **changes)
        setup = dataclasses.replace(mission.setup, settings=settings)
        return reflection_id(Rollout(setup, "learning", mission.guidance, (), epoch, step))

    assert name(1, 1, output=elsewhere) == name(1, 1)
    runner = dataclasses.replace(mission.setup.settings.runner, shuffle_seed=99)
    assert len({name(1, 1), name(1, 2), name(1, 1, runner=runner)}) == 3


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


def test_five_unusable_replies_in_a_row_park_and_the_next_start_goes_on_from_there(on_disk: MissionOnDisk) -> None:
    world = World()
    world.critique = lambda number: "never JSON"
    parks = []
    while True:
        _, journal = on_disk.start()
        try:
            on_disk.run(world)
            break
        except TooManyRejected as error:
            journal.add_park(error.replies)
            parks.append(error.replies)
    # Two batches of 16 critiques each; the proposals in between can be used and are counted
    assert parks == [5, 10, 15, 21, 26, 31]
    assert max(world.asked.values()) == 1, "no reply is asked for again"
