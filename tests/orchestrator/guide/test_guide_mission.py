"""A mission driven with a dictionary of results: what is asked, what is decided, what is written."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from equal_runs import artifacts_of
from guided_world import MISSION, RULE, MissionOnDisk, World, noop_text, small_settings, small_tickets

from orchestrator.guide.reflecting import TooManyRejected, chosen_candidates
from orchestrator.guide.rollouts import StepStopped
from orchestrator.guide.settings import PrefilterSettings
from orchestrator.runs.folder import OutputError
from tasks.guide.choose import SelectionRule, judge
from tasks.guide.ticket import read_candidate


@pytest.fixture
def on_disk(tmp_path: Path) -> MissionOnDisk:
    return MissionOnDisk(tmp_path, small_settings(tmp_path), small_tickets())


@pytest.fixture(scope="module")
def finished_mission(tmp_path_factory: pytest.TempPathFactory) -> MissionOnDisk:
    """One that nothing has disturbed."""
    mission = another(tmp_path_factory.mktemp("whole"))
    assert mission.run(World()).is_finished
    return mission


def another(folder: Path, **changes: Any) -> MissionOnDisk:
    folder.mkdir(exist_ok=True)
    return MissionOnDisk(folder, small_settings(folder, **changes), small_tickets())


def gates(mission: MissionOnDisk) -> list[str]:
    return [line["gate"] for line in mission.lines("reflection.jsonl")]


def test_the_counts_are_those_of_the_artifacts(on_disk: MissionOnDisk) -> None:
    on_disk.run(World())
    guidance, stats = on_disk.value("guidance.json")[MISSION], on_disk.value("stats.json")
    assert (guidance["step"], guidance["experiences"]) == (1, {"G0": "Look closely.", "G1": RULE})
    assert stats["is_finished"] and stats["batches"] == {"size": 8, "per_epoch": 1, "done": 2, "total": 2}
    assert stats["reflections"]["acceptance"] == {"count": 1, "of": 1, "rate": 1.0}
    assert stats["precision"]["paired"] == stats["precision"]["unpaired"] == {"count": 1, "of": 1, "rate": 1.0}
    assert stats["recall"] == {"count": 1, "of": 4, "rate": 0.25}
    assert stats["format"]["rate"] == 1.0
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
    rollouts = [line for step in (1, 2) for line in on_disk.lines(f"step_{step}/rollout.jsonl")]
    assert stats["tokens"]["rollout"] <= sum(line["tokens"] for line in rollouts), "what is asked again costs nothing"


def test_each_batch_gate_edit_and_warning_is_said(on_disk: MissionOnDisk, caplog: pytest.LogCaptureFixture) -> None:
    world, right = World(), World().verdict
    world.verdict = lambda system, user, seed: "?" if "unit 1:" in user else right(system, user, seed)
    world.critique = lambda number: "?" if number == 1 else json.dumps({"summary": "s", "critique": "c"})
    with caplog.at_level("INFO"):
        on_disk.run(world)
    assert on_disk.value("stats.json")["critiques"]["rejected"] == 1
    [rejected] = [line for line in on_disk.lines("step_1/trajectories.jsonl") if "critic_rejected" in line]
    assert rejected["critic_rejected"]["reply"] == "?" and "critic" not in rejected
    first = [line for line in caplog.messages if line.startswith(f"{MISSION}: batch 1")]
    assert first == [
        f"{MISSION}: batch 1 of 2, epoch 1: 4 of 8 tickets are right (balanced accuracy 50.0 %)",
        f"{MISSION}: batch 1: 1 of 14 critiques cannot be used",
        f"{MISSION}: batch 1: 4 of 32 candidates do not keep the three lines",
        f"{MISSION}: batch 1: 1 tickets have no valid candidate and count as wrong: t01",
        f"{MISSION}: batch 1: gate: applied: uplift +0.5000 (at least 0.02), probability 0.995 (at least 0.8), "
        "false passes -1.0000 (at most +0.05)",
        f"{MISSION}: batch 1: edit: upsert G1: {RULE}",
    ]


def test_a_verifier_scores_each_candidate_and_decides_nothing(tmp_path: Path, finished_mission: MissionOnDisk) -> None:
    mission = another(tmp_path, verifier="my_verifiers:verify")
    mission.run(World())
    for name in ("step_1", "final"):
        lines = mission.lines(f"{name}/trajectories.jsonl")
        assert [line["verifier_score"] for line in lines] == [len(line["response_text"]) for line in lines]
    assert gates(mission) == gates(finished_mission)


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


def test_a_prompt_over_the_budget_stops_the_mission_before_anything_is_asked(on_disk: MissionOnDisk) -> None:
    world = World()
    world.context = 32 + 8
    with pytest.raises(StepStopped, match=r"8 tokens.*t00"):
        on_disk.run(world)
    assert set(world.tasks) == {"gpu.prompt_lengths"}
    # With room for one experience an edit with which prompts would be too long is refused, and the mission goes on
    world = World()
    world.context = 32 + 15
    assert on_disk.run(world).is_finished and gates(on_disk) == ["too_long", "too_long"]


def test_a_batch_without_any_valid_candidate_stops_the_mission_and_shows_what_came(tmp_path: Path) -> None:
    mission, world = another(tmp_path), World()
    world.verdict = lambda system, user, seed: "I think it passes."
    with pytest.raises(StepStopped, match="step_1/rollout"):
        mission.run(world)
    lines = mission.lines("step_1/rollout.jsonl")
    assert {line["format_ok"] for line in lines} == {False}
    # When it is not enforced, then the tickets count as wrong, are for review, and the mission goes on
    lenient = another(tmp_path / "lenient", sampler__enforce_three_line=False)
    assert lenient.run(world).is_finished
    assert {line["reasons"][0] for line in lenient.lines("review.jsonl")} == {"no_valid_candidate"}
    [first, *_] = lenient.lines("selections.jsonl")
    assert (first["verdict"], first["label_match"], first["warnings"]) == (None, False, ["no_valid_candidate"])
    assert lenient.value("stats.json")["final"]["right"] == 0
    assert world.tasks["openai.critique"] == 0, "malformed candidates are not criticised"


@pytest.mark.parametrize("rounds", [0, 1, 3, 5, 7])
def test_a_mission_that_is_cut_comes_to_the_same_artifacts(
    tmp_path: Path, rounds: int, finished_mission: MissionOnDisk
) -> None:
    cut, world = another(tmp_path / "cut"), World()
    assert not cut.run(world, most=rounds).is_finished
    assert cut.run(world).is_finished
    assert max(world.asked.values()) == 1, "nothing that was answered is asked again"
    assert artifacts_of(cut.path.parent) == artifacts_of(finished_mission.path.parent)


@pytest.mark.parametrize(("asked_for", "has_final"), [("learning", False), ("final", True)])
def test_an_edit_by_hand_ends_a_mission_also_when_it_applies_nothing_after_it(
    tmp_path: Path, asked_for: str, has_final: bool
) -> None:
    mission, world = another(tmp_path / "edited", runner__epochs=1), World()
    world.proposal = lambda number: noop_text()
    session, _ = mission.start()
    steps = session.steps()
    asked = next(steps)
    with pytest.raises(OutputError, match="restore the newest file"):
        while True:
            if any(request.spec.label.startswith(f"{MISSION}/{asked_for}/") for request in asked):
                content = mission.value("guidance.json")
                content[MISSION]["experiences"]["G0"] = "Look away."
                (mission.path / "guidance.json").write_text(json.dumps(content))
            asked = steps.send(world.results(asked))
    assert (mission.path / "final").exists() == has_final and not session.is_finished
