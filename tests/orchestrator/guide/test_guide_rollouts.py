"""What is asked of the target for one guidance, and with which seeds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from guided_world import RULE, MissionOnDisk, small_settings, small_tickets

from orchestrator.guide.rollouts import (
    MissionSetup,
    Purpose,
    Rollout,
)
from tasks.guide.experiences import first_guidance

FIRST, EDITED = {"G0": "Look closely."}, {"G0": "Look closely.", "G1": RULE}


@pytest.fixture
def setup(tmp_path: Path) -> MissionSetup:
    grid = [
        {"temperature": 0.0, "top_p": 1.0, "max_new_tokens": 40},
        {"temperature": 0.8, "top_p": 0.9, "max_new_tokens": 400},
    ]
    return MissionOnDisk(tmp_path, small_settings(tmp_path, sampler__grid=grid), small_tickets()).start()[0].setup


def rollout(setup: MissionSetup, purpose: Purpose, experiences: dict[str, str], epoch: int | None = None) -> Rollout:
    return Rollout(setup, purpose, first_guidance(experiences, ""), setup.tickets.training, epoch, epoch)


def seeds(asked: Rollout) -> list[list[int]]:
    return [request.spec.arguments["seeds"] for request in asked.requests]


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
