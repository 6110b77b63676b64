"""The rule reflector: a step for the target cluster, by what earlier steps did and by how much the cluster is used.

A step that helped is made again; one that hurt is taken back by half.  Without experience, the end of the turn
becomes likelier, numbers a little likelier, and other clusters less likely, the more so the more of the long
answers they make up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.openai import reflect
from tasks.openai.prompt_escaping import unquote
from workers.embedded.endpoint.prompt_parser import body, json_body
from workers.embedded.endpoint.scratchpad import Seen, Step, bounded, settle, steps

SCHEMA_NAME = reflect.SCHEMA_NAME
END_OF_TURN, NUMBERS = "0", "1"
BOUND = 8.0
SMALLEST_STEP = 0.25
ENOUGH_FOR_NUMBERS = 1.0
SHORT_ANSWER_TOKENS = 15.0

_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Situation:
    """What the prompt says. `prominence` is the target's share of the long answers over that of the mean cluster."""

    target: str
    deltas: Mapping[str, float]
    seen: Seen
    answers: int
    prominence: float

    @property
    def current(self) -> float:
        return self.deltas[self.target]


def answer(system: str, user: str) -> dict[str, Any]:
    """The reply to `tasks.openai.reflect.mutation_messages`. Raises: ValueError or KeyError for another prompt."""
    del system
    situation = read_situation(user)
    scratchpad = settle(unquote(body(user, "Current scratchpad")), situation.deltas, situation.seen)
    new = decide(situation, steps(scratchpad))
    line = Step(situation.target, situation.current, new, situation.seen).line()
    return {"delta": new, "scratchpad": bounded([*scratchpad.split("\n"), line] if scratchpad else [line])}


def read_situation(user: str) -> Situation:
    """The user message, understood."""
    responses = json_body(user, "Training-set responses")
    if not responses:
        raise ValueError("there are no responses to learn from")
    target = body(user, "Target cluster").strip()
    tokens = [float(response["tokens"]) for response in responses]
    correct = [response["correct"] == "yes" for response in responses]
    typical = sorted(tokens)[len(tokens) // 2]
    long_answers = [response["answer"] for response in responses if response["tokens"] >= typical]
    shares = cluster_shares(json_body(user, "Cluster descriptions"), long_answers)
    mean_share = sum(shares.values()) / len(shares) if shares else 0.0
    return Situation(
        target=target,
        deltas=json_body(user, "Current delta vector"),
        seen=Seen(sum(tokens) / len(tokens), sum(correct) / len(correct)),
        answers=len(responses),
        prominence=shares.get(target, 0.0) / mean_share if mean_share else 0.0,
    )


def cluster_shares(descriptions: Sequence[Mapping[str, Any]], answers: Sequence[str]) -> dict[str, float]:
    """For each cluster the share of the answers' words that are among its examples (or in its description)."""
    words = [word.lower() for text in answers for word in _WORD.findall(text)]
    shares = {}
    for description in descriptions:
        examples = description.get("examples") or _WORD.findall(str(description.get("description", "")))
        known = {str(token).strip().lower() for token in examples} - {""}
        shares[str(description["id"])] = sum(word in known for word in words) / len(words) if words else 0.0
    return shares


def decide(situation: Situation, remembered: Sequence[Step]) -> float:
    """The target's new delta: within +-8, and never the current one."""
    own = [step for step in remembered if step.cluster == situation.target and step.after is not None]
    step = _next_step(situation, own[-1]) if own else _first_step(situation)
    best = max((past.after.correct for past in remembered if past.after), default=0.0)
    a_little = 0.5 / situation.answers  # less than one answer
    lost = best - situation.seen.correct > 3 * a_little
    if situation.target == END_OF_TURN and step > 0 and situation.current > 0 and lost:
        step = -1.0  # too early an end cuts answers off
    wanted = _short_of_harm(situation.current, situation.current + step, own, best - a_little)
    new = round(min(BOUND, max(-BOUND, wanted)), 4)
    if abs(new - situation.current) < SMALLEST_STEP / 2:  # at the bound, or at what hurt
        new = round(situation.current - (2 * SMALLEST_STEP if situation.current > 0 else -2 * SMALLEST_STEP), 4)
    return new


def _first_step(situation: Situation) -> float:
    if situation.target == END_OF_TURN:
        return 2.0 if situation.seen.tokens > SHORT_ANSWER_TOKENS else 1.0
    if situation.target == NUMBERS:
        return 0.5 if situation.current < ENOUGH_FOR_NUMBERS else -SMALLEST_STEP
    if situation.prominence >= 1.5:
        return -1.0
    return -0.5 if situation.prominence >= 0.75 else -SMALLEST_STEP


def _next_step(situation: Situation, last: Step) -> float:
    made = last.new - last.old
    gain = last.gain or 0.0
    if gain < 0:
        return _at_least(-made / 2)
    if situation.target == NUMBERS and situation.current >= ENOUGH_FOR_NUMBERS and made > 0:
        return -SMALLEST_STEP
    if situation.target == END_OF_TURN and made > 0:
        return max(made * 0.75, 1.0)
    return _at_least(made)


def _short_of_harm(current: float, wanted: float, own: Sequence[Step], correct_enough: float) -> float:
    """`wanted`, or half the way to the nearest value in that direction with which answers were less correct."""
    hurt = [step.new for step in own if step.after and step.after.correct < correct_enough]
    ahead = [value - current for value in hurt if value != current and (value > current) == (wanted > current)]
    nearest = min(ahead, key=abs, default=None)
    if nearest is None or abs(wanted - current) < abs(nearest):
        return wanted
    return current + nearest / 2


def _at_least(step: float) -> float:
    if abs(step) >= SMALLEST_STEP:
        return step
    return SMALLEST_STEP if step > 0 else -SMALLEST_STEP
