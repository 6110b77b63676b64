"""Tasks that share the memory of a card: who is tried again when it was full, when, and beside how many."""

from __future__ import annotations

import hashlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tasks.gpu.compute.process import CardMemoryFull, ChildFailed
from workers.sglang import card_memory
from workers.sglang.card_memory import CardMemory

LIMIT_S = 30.0
FULL = CardMemoryFull("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")


class Sharer:
    """A task in a thread.  Each of its attempts begins, and ends as the test says: with a value or an error."""

    def __init__(self, memory: CardMemory, threads: ThreadPoolExecutor, check: Callable[[], None] = lambda: None):
        self.attempts = 0
        self.notices: queue.Queue[str] = queue.Queue()
        self._begun, self._ends, self._checked = threading.Semaphore(0), queue.Queue(), threading.Semaphore(0)
        self._check, self._deadline = check, time.monotonic() + LIMIT_S
        self._result: Future[str] = threads.submit(memory.share, self._attempt, self._note_check, self.notices.put)

    def begins(self) -> Sharer:
        """Wait until its next attempt has begun."""
        assert self._begun.acquire(timeout=LIMIT_S)
        return self

    def waits(self) -> None:
        """See that it looks for a turn after this call, and has none."""
        attempts = self.attempts
        while self._checked.acquire(blocking=False):
            pass
        for _ in range(2):  # the first look may have been before
            assert self._checked.acquire(timeout=LIMIT_S)
        assert self.attempts == attempts

    def fills_memory(self) -> str:
        """Its attempt fails; returns the notice that it waits."""
        self._ends.put(FULL)
        return self.notices.get(timeout=LIMIT_S)

    def ends(self, how: str | Exception = "done") -> str:
        """Its attempt ends for good.  Raises: the error that it ends with."""
        self._ends.put(how)
        return self.result()

    def result(self) -> str:
        return self._result.result(LIMIT_S)

    def _attempt(self) -> str:
        self.attempts += 1
        self._begun.release()
        how = self._ends.get(timeout=LIMIT_S)
        if isinstance(how, Exception):
            raise how
        return str(how)

    def _note_check(self) -> None:
        self._checked.release()
        if time.monotonic() > self._deadline:  # of a test that has failed
            raise TimeoutError
        self._check()


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadPoolExecutor]:
    monkeypatch.setattr(card_memory, "CHECK_S", 0.02)
    with ThreadPoolExecutor(8) as threads:
        yield threads


@pytest.fixture
def begin(threads: ThreadPoolExecutor) -> Callable[[int], list[Sharer]]:
    """So many more tasks on the one card, each with its first attempt begun."""
    memory = CardMemory()
    return lambda count: [Sharer(memory, threads).begins() for _ in range(count)]


Begin = Callable[[int], list[Sharer]]


def test_one_that_had_the_card_to_itself_fails_for_good(begin: Begin) -> None:
    [alone] = begin(1)
    with pytest.raises(CardMemoryFull, match="Tried to allocate"):
        alone.ends(FULL)
    assert alone.attempts == 1 and alone.notices.empty()
    # and also when another one was there before and has ended
    [first] = begin(1)
    first.ends()
    [alone] = begin(1)
    with pytest.raises(CardMemoryFull):
        alone.ends(FULL)


def test_one_that_was_beside_another_is_tried_again_when_that_has_ended(begin: Begin) -> None:
    # Given two on the card, of which one was alone when it began
    first, second = begin(2)
    # When it finds no memory, then it waits, and says why and what to lower
    notice = first.fills_memory()
    assert "memory of the card was full" in notice and "when another one has ended" in notice
    assert "at most 1 share" in notice and "--gpu-jobs" in notice and "GPU_SLOTS" in notice
    first.waits()
    # When the other one has ended, well or not, then it begins again
    with pytest.raises(ChildFailed, match="KeyError"):
        second.ends(ChildFailed("KeyError: 'unknown'"))
    assert first.begins().ends("at last") == "at last"
    assert first.attempts == 2


def test_an_error_of_another_kind_is_not_tried_again(begin: Begin) -> None:
    first, second = begin(2)
    with pytest.raises(ChildFailed, match="ended by signal 9"):
        first.ends(ChildFailed("ended by signal 9"))
    assert (first.attempts, second.ends()) == (1, "done")


def test_one_that_fails_makes_no_room_for_those_that_wait(begin: Begin) -> None:
    first, second, third = begin(3)
    first.fills_memory()
    second.fills_memory()
    # Two of three have given back their memory, and none of them takes it
    first.waits()
    second.waits()
    # When the third one has ended, then both begin: they have seen the same full card, on which three were too many
    third.ends()
    first.begins()
    second.begins()
    # When one of them finds no memory again, then it has to wait for the other one
    assert "at most 1 share" in first.fills_memory()
    first.waits()
    second.ends()
    first.begins().ends()


def test_of_three_that_fail_at_once_one_begins_and_then_the_others(begin: Begin) -> None:
    first, second, third = begin(3)
    for each in (first, second, third):
        each.fills_memory()
    first.begins()
    second.waits()
    third.waits()
    # When it finds no memory with the card to itself, then it fails for good, and the others have their turn
    with pytest.raises(CardMemoryFull):
        first.ends(FULL)
    second.begins()
    third.begins()
    # When they find none side by side, then one after the other
    second.fills_memory()
    third.fills_memory()
    second.begins()
    third.waits()
    second.ends()
    third.begins().ends()
    assert [each.attempts for each in (first, second, third)] == [2, 3, 3]


def test_two_that_never_fit_side_by_side_are_done_one_after_the_other(begin: Begin) -> None:
    first, second = begin(2)
    first.fills_memory()
    second.fills_memory()
    # The second one failed after the first, and was beside it: it is no failure for good
    first.begins()
    second.waits()
    first.ends()
    second.begins().ends()
    assert (first.attempts, second.attempts) == (2, 2)


def test_one_that_comes_later_does_not_take_the_place_of_one_that_waits(threads: ThreadPoolExecutor) -> None:
    memory = CardMemory()
    first, second, third = [Sharer(memory, threads).begins() for _ in range(3)]
    first.fills_memory()
    later = Sharer(memory, threads)
    later.waits()
    # When there is room for one, then the one that has waited longest has it
    second.ends()
    first.begins()
    later.waits()
    third.ends()
    later.begins()
    assert [first.ends(), later.ends()] == ["done", "done"]


def test_as_many_as_before_share_the_card_when_enough_have_ended_well(threads: ThreadPoolExecutor) -> None:
    # Given a card on which two were too many
    memory = CardMemory()
    first, second = [Sharer(memory, threads).begins() for _ in range(2)]
    first.fills_memory()
    later = [Sharer(memory, threads) for _ in range(3)]
    second.ends()
    # When the one that ran then and the next one have ended well, then two share it again
    first.begins()
    later[0].waits()
    first.ends()
    later[0].begins()
    later[1].begins()
    later[2].waits()
    for each in (later[0], later[1]):
        each.ends()
    later[2].begins().ends()
    # When the card was free, then nothing is left of the limit
    assert [each.ends() for each in [Sharer(memory, threads).begins() for _ in range(4)]] == ["done"] * 4


def test_one_that_waits_may_give_up_and_the_next_has_its_turn(threads: ThreadPoolExecutor) -> None:
    memory, cancelled = CardMemory(), threading.Event()

    def check() -> None:
        if cancelled.is_set():
            raise InterruptedError("cancelled")

    waiting = Sharer(memory, threads, check).begins()
    second, other = [Sharer(memory, threads).begins() for _ in range(2)]
    waiting.fills_memory()
    second.fills_memory()
    second.waits()
    cancelled.set()
    with pytest.raises(InterruptedError):
        waiting.result()
    # It was not on the card any more, so its end makes no room
    second.waits()
    other.ends()
    second.begins().ends()


def test_many_that_fit_only_two_by_two_are_all_done(threads: ThreadPoolExecutor) -> None:
    # Given a card for two, and tasks that find its memory full when a third one is there, in any order
    memory, lock, together = CardMemory(), threading.Lock(), [0]

    def attempt() -> str:
        with lock:
            together[0] += 1
            is_full = together[0] > 2
        try:
            hashlib.pbkdf2_hmac("sha256", b"work", b"of some milliseconds", 20_000)
            if is_full:
                raise FULL
            return "done"
        finally:
            with lock:
                together[0] -= 1

    shared = [threads.submit(memory.share, attempt, lambda: None, lambda _: None) for _ in range(40)]
    assert [each.result(LIMIT_S) for each in shared] == ["done"] * 40
