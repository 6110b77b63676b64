"""Unusable replies in a row park a run, each kind by its own count, and the next start goes on from there."""

from __future__ import annotations

from pathlib import Path

import pytest
from guided_world import MissionOnDisk, World, small_settings, small_tickets

from orchestrator.guide.rejections import MOST_REJECTED, RejectionCounter, TooManyRejected
from tasks.guide.replies import Rejected


@pytest.fixture
def on_disk(tmp_path: Path) -> MissionOnDisk:
    return MissionOnDisk(tmp_path, small_settings(tmp_path), small_tickets())


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
            assert "5 replies in a row could not be used as a critique" in str(error)
            journal.add_park(error.replies)
            parks.append(error.replies)
    # Two batches of 16 critiques each; the proposals in between can be used and are counted
    assert parks == [5, 10, 15, 21, 26, 31]
    assert max(world.asked.values()) == 1, "no reply is asked for again"


def test_good_critiques_do_not_hide_that_no_proposal_is_ever_understood(tmp_path: Path) -> None:
    settings = small_settings(tmp_path, runner__epochs=3)
    mission, world = MissionOnDisk(tmp_path, settings, small_tickets(training=16)), World()
    world.proposal = lambda number: "I would add a rule."
    with pytest.raises(TooManyRejected, match="could not be used as a proposal"):
        mission.run(world)
    assert world.tasks["openai.propose"] == MOST_REJECTED


def test_one_good_reply_begins_the_count_anew() -> None:
    counter = RejectionCounter("m", frozenset())
    for _ in range(3):
        for _ in range(MOST_REJECTED - 1):
            counter.add("critique", Rejected("r"))
        counter.add("critique", None)
    assert counter.replies == 15
    with pytest.raises(TooManyRejected):
        for _ in range(MOST_REJECTED):
            counter.add("proposal", Rejected("r"))
