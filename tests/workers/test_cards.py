"""Which card a worker takes, and that no two take the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from workers.cards import Card, NoCard, claim, eligible

CARDS = [Card(index, f"card {index}") for index in range(4)]


@pytest.mark.parametrize(
    ("environment", "indices"),
    [
        ({}, [0, 1, 2, 3]),
        ({"CUDA_VISIBLE_DEVICES": "2,0"}, [2, 0]),
        ({"WHETSTONE_CARD": "3"}, [3]),
        ({"WHETSTONE_CARD": "1", "CUDA_VISIBLE_DEVICES": "2,0"}, [1]),
    ],
)
def test_the_environment_says_which_cards_a_worker_may_take(environment: dict[str, str], indices: list[int]) -> None:
    assert [card.index for card in eligible(CARDS, environment)] == indices


@pytest.mark.parametrize("environment", [{"WHETSTONE_CARD": "4"}, {"CUDA_VISIBLE_DEVICES": ""}])
def test_a_card_that_is_not_there_is_refused_by_the_name_of_its_variable(environment: dict[str, str]) -> None:
    [(name, value)] = environment.items()
    with pytest.raises(NoCard, match=rf"^{name} is '{value}', and the cards of this machine are 0 \(card 0\), 1"):
        eligible(CARDS, environment)


def test_a_process_sees_its_own_card_alone() -> None:
    assert CARDS[2].environment() == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "2"}


def test_workers_of_one_host_take_different_cards(tmp_path: Path) -> None:
    first, second = claim(CARDS, tmp_path), claim(CARDS, tmp_path)
    assert (first.card.index, second.card.index) == (0, 1)
    # Given back, a card is there for the next
    first.release()
    assert claim(CARDS, tmp_path).card.index == 0
    second.release()


def test_a_card_is_free_when_the_worker_and_its_server_have_ended(tmp_path: Path) -> None:
    # Given a worker whose card its server holds too
    claimed = claim(CARDS[:1], tmp_path)
    lock = claimed.lock.fileno()
    waits = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, pass_fds=(lock,)):
        # When the worker has gone and the server has not, then nobody else gets the card
        claimed.release()
        with pytest.raises(NoCard, match=r"^card 0 of this machine is another worker's; WHETSTONE_CARD names another"):
            claim(CARDS[:1], tmp_path)
    claim(CARDS[:1], tmp_path).release()
