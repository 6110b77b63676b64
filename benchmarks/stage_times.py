"""How long the stages of a generation take, and what that bounds: pure."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from tasks.plan import Candidate, StageName, stage_refs

# Seconds of a training set on one GPU and of calls to a large model; scoring is arithmetic.
SECONDS: Mapping[StageName, float] = {"answer": 10.0, "judge": 3.0, "score": 0.0, "reflect": 8.0, "merge": 3.0}


def chain_s(candidate: Candidate) -> float:
    """A candidate's stages, one after the other."""
    return sum(SECONDS[step.stage] for step in stage_refs(candidate))


def lower_bound_s(candidates: Sequence[Candidate], workers: int) -> float:
    """No schedule is shorter: the gpu work shared out evenly, or the longest chain, whichever is larger."""
    gpu = sum(SECONDS["answer"] for candidate in candidates for step in stage_refs(candidate) if step.stage == "answer")
    return max(gpu / workers, *(chain_s(candidate) for candidate in candidates))


def first_come_s(candidates: Sequence[Candidate], workers: int) -> float:
    """The farm without any overhead: gpu workers take answers in the order in which they become due."""
    stages = [[SECONDS[step.stage] for step in stage_refs(candidate)] for candidate in candidates]
    on_gpu = [[step.stage == "answer" for step in stage_refs(candidate)] for candidate in candidates]
    free = [0.0] * workers
    due = [(0.0, number, 0) for number in range(len(candidates))]  # (when, whose, which stage)
    heapq.heapify(due)
    end = 0.0
    while due:
        now, candidate, stage = heapq.heappop(due)
        if on_gpu[candidate][stage]:
            now = max(now, heapq.heappop(free))
        ended = now + stages[candidate][stage]
        if on_gpu[candidate][stage]:
            heapq.heappush(free, ended)
        end = max(end, ended)
        if stage + 1 < len(stages[candidate]):
            heapq.heappush(due, (ended, candidate, stage + 1))
    return end
