"""Missions in a world without a farm: what is asked, what is decided, what is written, and what it is after a stop."""

from __future__ import annotations

from pathlib import Path

import pytest
from guided_world import MISSION, RULE, MissionOnDisk, World, noop_text
from spec_checker import artifacts_of

from orchestrator.farm import Parked
from orchestrator.guide.report import guide_tables, progress_of
from orchestrator.guide.rollouts import StepStopped
from orchestrator.guide.run import KIND
from orchestrator.guide.session import drive_missions
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


def test_a_slow_mission_holds_up_no_other_one(tmp_path: Path) -> None:
    world, runs = World(), []
    for name in ("slow", "fast"):
        (tmp_path / name).mkdir()
        runs.append(MissionOnDisk(tmp_path / name, name).start())
    world.is_slow = lambda request: request.spec.label.startswith("slow")
    drive_missions(world, runs, lambda: None)  # type: ignore[arg-type]  # a world has what is used of a scheduler
    asked_by = [label.partition("/")[0] for label in world.order]
    assert asked_by == sorted(asked_by) and {*asked_by} == {"fast", "slow"}
    assert all(run.mission.is_finished for run in runs)
