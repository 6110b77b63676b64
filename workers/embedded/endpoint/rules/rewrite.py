"""The rule reflector for a whole vector: a step for all clusters, from what earlier vectors gave.

The first step is half of what the rule for mutations begins with, for each cluster.  While vectors get better, the step
from the best before to the newest is repeated; after a worse one the next is half way back to the best.  When that step
is too small to matter, the clusters are tried one after another.

The summary holds one line for each vector:

    41.3 tokens, 0.75 correct with {"0": 2.0, "1": 0.5}
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.common.escaping import unquote_lines
from tasks.openai.reflect import variant_of
from workers.embedded.endpoint.rules.mutation import (
    BOUND,
    SMALLEST_STEP,
    MutationPrompt,
    Observation,
    first_change,
    observe,
    prominences,
)
from workers.embedded.endpoint.sections import json_section, section

SCHEMA_NAME = "rewrite"
_LINE = re.compile(r"(\d+(?:\.\d+)?) tokens, (\d+(?:\.\d+)?) correct with (\{[^{}]*\})")
Deltas = Mapping[str, float]


@dataclass(frozen=True)
class Round:
    """A vector, and what the answers with it were like."""

    deltas: Deltas
    seen: Observation

    def line(self) -> str:
        return f"{self.seen.tokens:.1f} tokens, {self.seen.correct:.4g} correct with {json.dumps(dict(self.deltas))}"


def answer(system: str, user: str) -> dict[str, Any]:
    """The reply to `tasks.openai.reflect.rewrite_messages`."""
    del system
    responses = json_section(user, "All minibatch responses")
    now = Round(json_section(user, "Deltas used"), observe(responses))
    past = read_rounds(unquote_lines(section(user, "Evolving summary")), now.deltas)
    prominence = prominences(json_section(user, "Cluster descriptions"), responses)
    base, step = next_step(now, past, _first_steps(now, len(responses), prominence))
    length = 1 + variant_of(user) / 2
    return {
        "deltas": {cluster: _bounded(base[cluster] + length * step[cluster]) for cluster in base},
        "summary": now.line(),
    }


def read_rounds(summary: str, deltas: Deltas) -> list[Round]:
    """The vectors that the summary names, oldest first; lines of another form or of other clusters are passed over."""
    rounds = []
    for line in summary.split("\n"):
        if found := _LINE.fullmatch(line.strip()):
            try:
                read = {str(cluster): float(delta) for cluster, delta in json.loads(found[3]).items()}
            except (ValueError, TypeError):
                continue
            if read.keys() == deltas.keys() and all(map(math.isfinite, read.values())):
                rounds.append(Round(read, Observation(float(found[1]), float(found[2]))))
    return rounds


def next_step(now: Round, past: list[Round], first: Deltas) -> tuple[Deltas, Deltas]:
    """The vector to start from, and the step to take from it."""
    if not past:
        return now.deltas, first
    best = max(past, key=lambda each: each.seen.value)
    step = {cluster: now.deltas[cluster] - best.deltas[cluster] for cluster in now.deltas}
    base = now if now.seen.value > best.seen.value else best
    if base is best:
        step = {cluster: change / 2 for cluster, change in step.items()}
    if max(map(abs, step.values())) < SMALLEST_STEP / 2:
        turn = list(first)[len(past) % len(first)]
        step = {cluster: change if cluster == turn else 0.0 for cluster, change in first.items()}
    return base.deltas, step


def _first_steps(now: Round, answers: int, prominence: Mapping[str, float]) -> Deltas:
    return {
        cluster: first_change(MutationPrompt(cluster, now.deltas, now.seen, answers, prominence.get(cluster, 0.0))) / 2
        for cluster in now.deltas
    }


def _bounded(delta: float) -> float:
    return round(min(BOUND, max(-BOUND, delta)), 4)
