"""Critic and reflector: who is asked about what, and what becomes of replies that cannot be used."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from guided_world import MissionOnDisk, World, small_settings, small_tickets

from orchestrator.guide.reflecting import chosen_candidates
from orchestrator.guide.settings import CriticSettings, PrefilterSettings
from orchestrator.guide.steps import StepStopped
from tasks.guide.batch import TicketCandidates
from tasks.guide.candidates import read_candidate


@pytest.fixture
def on_disk(tmp_path: Path) -> MissionOnDisk:
    return MissionOnDisk(tmp_path, small_settings(tmp_path), small_tickets())


def critic(settings: CriticSettings, top_k: int | None, most: int) -> CriticSettings:
    return dataclasses.replace(settings, prefilter=PrefilterSettings(top_k), max_candidates=most)


def test_without_a_filter_the_first_valid_candidates_are_criticised_with_one_the_wrong_and_sure_ones(
    on_disk: MissionOnDisk,
) -> None:
    replies = ["pass 0.9", "fail 0.5", "?", "fail 0.8", "pass 0.95", "fail 0.8"]
    texts = [
        "Verdict: {}\nReason: r\nConfidence: {}".format(*reply.split()) if " " in reply else "" for reply in replies
    ]
    candidates = tuple(read_candidate(i, 0, i, i, text, 3, "stop") for i, text in enumerate(texts))
    found = TicketCandidates(small_tickets().training[0], candidates)
    assert found.ticket.label == "pass"
    settings = on_disk.settings.critic

    def chosen(top_k: int | None, most: int) -> list[int]:
        return [candidate.index for candidate in chosen_candidates(found, critic(settings, top_k, most))]

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
    assert rejected["warnings"] == ["critic_rejected"]
    assert on_disk.value("stats.json")["critiques"]["rejected"] == 1


def test_a_prompt_that_the_target_cannot_hold_stops_the_mission_and_names_the_setting(tmp_path: Path) -> None:
    settings = small_settings(tmp_path, critic__backend="target", critic__max_new_tokens=4096)
    mission, world = MissionOnDisk(tmp_path, settings, small_tickets()), World()
    world.context = 4095
    with pytest.raises(StepStopped, match=r"a prompt for a critique has \d+ tokens, .* less critic.max_new_tokens"):
        mission.run(world)
    assert world.tasks["gpu.critique"] == 0


def test_a_critic_that_is_off_is_not_asked(tmp_path: Path) -> None:
    settings = small_settings(tmp_path, critic__enabled=False)
    mission, world = MissionOnDisk(tmp_path, settings, small_tickets()), World()
    assert mission.run(world).is_finished
    assert world.tasks["openai.critique"] == 0
    stats = mission.value("stats.json")
    assert stats["who"]["critic_backend"] == "none" and stats["reflections"]["applied"] == 1
