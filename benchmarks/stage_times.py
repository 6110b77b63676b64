"""How long the stages of a generation take, and what that bounds: pure."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from tasks.plan import Member, StageName, steps

# Seconds of a training set on one GPU and of calls to a large model; scoring is arithmetic.
SECONDS: Mapping[StageName, float] = {"answer": 10.0, "judge": 3.0, "score": 0.0, "reflect": 8.0, "merge": 3.0}


def chain_s(member: Member) -> float:
    """A member's stages, one after the other."""
    return sum(SECONDS[step.stage] for step in steps(member))


def lower_bound_s(members: Sequence[Member], workers: int) -> float:
    """No schedule is shorter: the gpu work shared out evenly, or the longest chain, whichever is larger."""
    gpu = sum(SECONDS["answer"] for member in members for step in steps(member) if step.stage == "answer")
    return max(gpu / workers, *(chain_s(member) for member in members))


def first_come_s(members: Sequence[Member], workers: int) -> float:
    """The farm without any overhead: gpu workers take answers in the order in which they become due."""
    stages = [[SECONDS[step.stage] for step in steps(member)] for member in members]
    on_gpu = [[step.stage == "answer" for step in steps(member)] for member in members]
    free = [0.0] * workers
    due = [(0.0, number, 0) for number in range(len(members))]  # (when, whose, which stage)
    heapq.heapify(due)
    end = 0.0
    while due:
        now, member, stage = heapq.heappop(due)
        if on_gpu[member][stage]:
            now = max(now, heapq.heappop(free))
        ended = now + stages[member][stage]
        if on_gpu[member][stage]:
            heapq.heappush(free, ended)
        end = max(end, ended)
        if stage + 1 < len(stages[member]):
            heapq.heappush(due, (ended, member, stage + 1))
    return end
