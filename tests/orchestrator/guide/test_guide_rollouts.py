"""What is asked of the target for one guidance, and with which seeds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from guided_world import RULE, MissionOnDisk, small_settings, small_tickets

from orchestrator.guide.lines import rollout_lines
from orchestrator.guide.rollouts import PROMPTS_A_JOB, Purpose, Rollout, measure_lengths, prompt_of
from orchestrator.guide.steps import MissionSetup, StepStopped

FIRST, EDITED = {"G0": "Look closely."}, {"G0": "Look closely.", "G1": RULE}


@pytest.fixture
def setup(tmp_path: Path) -> MissionSetup:
    grid = [
        {"temperature": 0.0, "top_p": 1.0, "max_new_tokens": 40},
        {"temperature": 0.8, "top_p": 0.9, "max_new_tokens": 400},
    ]
    return MissionOnDisk(tmp_path, small_settings(tmp_path, sampler__grid=grid), small_tickets()).start()[0].setup


def rollout(setup: MissionSetup, purpose: Purpose, experiences: dict[str, str], epoch: int | None = None) -> Rollout:
    return Rollout(setup, purpose, experiences, 0, setup.tickets.training, epoch, epoch)


def seeds(asked: Rollout) -> list[list[int]]:
    return [request.spec.arguments["seeds"] for request in asked.requests]


def test_each_ticket_has_one_job_for_each_cell_and_a_sample_adds_one_to_the_seed(setup: MissionSetup) -> None:
    asked = rollout(setup, "learning", FIRST, 1)
    assert [len(found) for found in seeds(asked)] == [1, 3] * 8, "a greedy cell has one sample"
    assert all(found == [found[0] + j for j in range(len(found))] for found in seeds(asked))


def test_an_epoch_samples_anew_and_a_preview_has_the_same_seeds_under_all_guidance(setup: MissionSetup) -> None:
    assert seeds(rollout(setup, "learning", FIRST, 1)) != seeds(rollout(setup, "learning", FIRST, 2))
    assert seeds(rollout(setup, "paired", EDITED, 2)) == seeds(rollout(setup, "learning", FIRST, 2))
    assert seeds(rollout(setup, "before", FIRST)) == seeds(rollout(setup, "after", EDITED))
    greedy = [rollout(setup, "learning", FIRST, epoch).requests[0].key for epoch in (1, 2)]
    assert greedy[0] == greedy[1], "an unchanged greedy answer is not asked again"


def test_the_form_leaves_room_for_the_whole_answer(setup: MissionSetup) -> None:
    short, long = (request.spec.arguments["regex"] for request in rollout(setup, "final", FIRST).requests[:2])
    for form, characters in ((short, 40 - 24), (long, 160)):
        for extra, fits in ((0, True), (1, False)):
            reason = "r" * (characters + extra)
            assert bool(re.fullmatch(form, f"Verdict: pass\nReason: {reason}\nConfidence: 0.50")) is fits


def test_the_lines_of_a_rollout_name_ticket_guidance_and_seed(setup: MissionSetup) -> None:
    asked = rollout(setup, "learning", FIRST, 1)
    answer = {"text": "Verdict: fail\nReason: r\nConfidence: 50%", "tokens": 9, "finish": "length"}
    results = {
        request.key: {"answers": [answer] * len(request.spec.arguments["seeds"]), "prompt_tokens": 7}
        for request in asked.requests
    }
    lines = list(rollout_lines(asked.read(results)))
    assert [line["candidate_index"] for line in lines[:4]] == [0, 1, 2, 3]
    first, second = lines[0], lines[1]
    assert (first["epoch"], first["step"], first["guidance_step"], first["guidance_hash"]) == (
        1,
        1,
        0,
        asked.guidance_hash,
    )
    assert second["decode"]["seed"] == seeds(asked)[1][0] and second["decode"]["temperature"] == 0.8
    assert (first["format_ok"], first["warnings"], first["prompt_tokens"]) == (True, ["cut: length"], 7)


def test_many_prompts_are_measured_in_jobs_of_a_bounded_size(setup: MissionSetup) -> None:
    prompts = [("s", str(number)) for number in range(PROMPTS_A_JOB + 3)]
    steps = measure_lengths(setup, prompts, 10, "all")
    asked = next(steps)
    assert [len(request.spec.arguments["prompts"]) for request in asked] == [PROMPTS_A_JOB, 3]
    results = {r.key: {"tokens": [len(user) for _, user in r.spec.arguments["prompts"]], "context": 12} for r in asked}
    with pytest.raises(StopIteration) as ended:
        steps.send(results)
    lengths = ended.value.value
    assert lengths.most == 2 and lengths.too_long() == list(range(100, PROMPTS_A_JOB + 3))


def test_a_prompt_without_an_experience_stops_the_mission(setup: MissionSetup) -> None:
    with pytest.raises(StepStopped, match="the prompt of t00: there is no experience"):
        prompt_of(setup, setup.tickets.training[0], {})
