"""The queue of requests that all tasks of a gpu worker share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from tasks.gpu.target import RequestQueue, Turn


@pytest.fixture(autouse=True)
def loop() -> Iterator[None]:
    """Futures need a running loop."""
    loop = asyncio.new_event_loop()
    asyncio._set_running_loop(loop)
    yield
    asyncio._set_running_loop(None)
    loop.close()


def sent(turns: Sequence[Turn]) -> list[bool]:
    return [turn.done() for turn in turns]


def test_requests_are_sent_in_their_order_as_earlier_ones_are_answered() -> None:
    queue = RequestQueue()
    with queue.batch(3, limit=2) as first, queue.batch(1, limit=2) as second:
        assert (sent([*first, *second]), queue.in_flight, queue.waiting) == ([True, True, False, False], 2, 2)
        queue.end(first[1])
        assert (sent(first), sent(second)) == ([True, True, True], [False])
        queue.end(first[0])
        assert (sent(second), queue.in_flight, queue.waiting, queue.batches) == ([True], 2, 0, 2)
    assert (queue.in_flight, queue.batches) == (0, 0)


def test_a_request_that_is_given_up_leaves_its_place_to_the_next() -> None:
    queue = RequestQueue()
    with queue.batch(4, limit=1) as turns:
        # One that waits, and the one in flight
        turns[1].cancel()
        queue.end(turns[1])
        assert (sent(turns), queue.waiting) == ([True, True, False, False], 2)
        queue.end(turns[0])
        assert sent(turns) == [True, True, True, False]
        # One that is given up and has not ended its turn when it comes
        turns[3].cancel()
        queue.end(turns[2])
        assert (queue.in_flight, queue.waiting) == (1, 0)
        queue.end(turns[3])
        assert queue.in_flight == 0
