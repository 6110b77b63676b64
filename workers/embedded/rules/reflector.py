"""The reflector by rules: a step for one cluster, a step for all clusters, and the merge of two scratchpads.

One cluster: a step that helped is repeated; a step that hurt is taken back by half.  Without experience, the end of the
turn becomes more likely, numbers a little more likely, and other clusters less likely, the more so the more of the long
answers they make up.  A step is longer by a half for each time that the same was asked before.  The scratchpad has one
line for each step and its result, "?" for a new step, "unseen" where a crossover changed the delta first:

    cluster 0: 0.0 -> 2.0 at 41.3 tokens, 0.75 correct; then 30.0 tokens, 0.75 correct

All clusters: the first step is half of that for one cluster.  While vectors get better, the step from the best before
to the newest is repeated; after a worse one the next is half way back to the best.  When that step is too small to
matter, the clusters are tried one after another.  The summary has a line for each vector:

    41.3 tokens, 0.75 correct with {"0": 2.0, "1": 0.5}
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.common.text import unquote_lines
from tasks.openai.prompts import variant_of
from workers.embedded.rules.sections import json_section, section, sections

END_OF_TURN, NUMBERS = "0", "1"
BOUND = 8.0
SMALLEST_STEP = 0.25
ENOUGH_FOR_NUMBERS = 1.0
SHORT_ANSWER_TOKENS = 15.0
MAX_LINES = 24
# A measure of its own, because the prompt does not state the weights of the fitness.
SHORTNESS_TOKENS = 50.0
SHORTNESS_WEIGHT = 0.5

_WORD = re.compile(r"\w+|[^\w\s]")
_NUMBER = r"(-?\d+(?:\.\d+)?(?:e-?\d+)?)"
_STEP = re.compile(
    rf"cluster (\d+): {_NUMBER} -> {_NUMBER} at {_NUMBER} tokens, {_NUMBER} correct; "
    rf"then (?:{_NUMBER} tokens, {_NUMBER} correct|(\?|unseen))"
)


@dataclass(frozen=True)
class Observation:
    """Mean tokens an answer, and the share of answers that are correct."""

    tokens: float
    correct: float

    @property
    def value(self) -> float:
        """More is better: correctness first, shortness second."""
        return self.correct + SHORTNESS_WEIGHT / (1 + self.tokens / SHORTNESS_TOKENS)

    def __str__(self) -> str:
        return f"{self.tokens:.1f} tokens, {self.correct:.4g} correct"


@dataclass(frozen=True)
class DeltaStep:
    """A change of one delta. `after` is None while its result is not known, and for good when `unseen`."""

    cluster: str
    old: float
    new: float
    before: Observation
    after: Observation | None = None
    unseen: bool = False

    def line(self) -> str:
        outcome = "unseen" if self.unseen else self.after or "?"
        return f"cluster {self.cluster}: {self.old!r} -> {self.new!r} at {self.before}; then {outcome}"


def mutate(_: str, user: str) -> dict[str, Any]:
    """The reply to `tasks.openai.prompts.mutation_messages`."""
    responses = json_section(user, "Training-set responses")
    target, deltas = section(user, "Target cluster").strip(), json_section(user, "Current delta vector")
    now = observe(responses)
    prominence = prominences(json_section(user, "Cluster descriptions"), responses).get(target, 0.0)
    scratchpad = complete_steps(unquote_lines(section(user, "Current scratchpad")), deltas, now)
    steps = [step for line in scratchpad.split("\n") if (step := read_step(line))]
    new = choose_delta(target, deltas[target], now, steps, prominence, 0.5 / len(responses), variant_of(user))
    line = DeltaStep(target, deltas[target], new, now).line()
    return {"delta": new, "scratchpad": newest([*scratchpad.split("\n"), line] if scratchpad else [line])}


def observe(responses: Sequence[Mapping[str, Any]]) -> Observation:
    if not responses:
        raise ValueError("there are no responses to learn from")
    tokens = [float(response["tokens"]) for response in responses]
    correct = [response["correct"] == "yes" for response in responses]
    return Observation(sum(tokens) / len(tokens), sum(correct) / len(correct))


def prominences(descriptions: Sequence[Mapping[str, Any]], responses: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The share of each cluster in the words of the longer answers, over that of the mean cluster."""
    typical = sorted(float(response["tokens"]) for response in responses)[len(responses) // 2]
    long_answers = [response["answer"] for response in responses if response["tokens"] >= typical]
    words = [word.lower() for text in long_answers for word in _WORD.findall(text)]
    shares = {}
    for description in descriptions:
        examples = description.get("examples") or _WORD.findall(str(description.get("description", "")))
        known = {str(token).strip().lower() for token in examples} - {""}
        shares[str(description["id"])] = sum(word in known for word in words) / len(words) if words else 0.0
    mean_share = sum(shares.values()) / len(shares) if shares else 0.0
    return {cluster: share / mean_share for cluster, share in shares.items()} if mean_share else {}


def choose_delta(
    target: str,
    current: float,
    now: Observation,
    steps: Sequence[DeltaStep],
    prominence: float,
    margin: float,
    variant: int,
) -> float:
    """The target's new delta: within +-8, and never the current one.

    `margin` is a share of the answers, less than one; `variant` counts how often the same was asked before.
    """
    own = [step for step in steps if step.cluster == target and step.after is not None]
    change = _next_change(target, current, own[-1]) if own else first_change(target, current, now, prominence)
    best = max((past.after.correct for past in steps if past.after), default=0.0)
    if target == END_OF_TURN and change > 0 and current > 0 and best - now.correct > 3 * margin:
        change = -1.0  # an end that comes too early cuts answers off
    change *= 1 + variant / 2
    new = _bounded(_before_harm(current, current + change, own, best - margin))
    if abs(new - current) < SMALLEST_STEP / 2:  # at the bound, or at a value that hurt
        new = round(current - (2 * SMALLEST_STEP if current > 0 else -2 * SMALLEST_STEP), 4)
    return new


def first_change(target: str, current: float, now: Observation, prominence: float) -> float:
    if target == END_OF_TURN:
        return 2.0 if now.tokens > SHORT_ANSWER_TOKENS else 1.0
    if target == NUMBERS:
        return 0.5 if current < ENOUGH_FOR_NUMBERS else -SMALLEST_STEP
    if prominence >= 1.5:
        return -1.0
    return -0.5 if prominence >= 0.75 else -SMALLEST_STEP


def _next_change(target: str, current: float, last: DeltaStep) -> float:
    made = last.new - last.old
    if last.after is not None and last.after.value < last.before.value:
        return _at_least(-made / 2)
    if target == NUMBERS and current >= ENOUGH_FOR_NUMBERS and made > 0:
        return -SMALLEST_STEP
    if target == END_OF_TURN and made > 0:
        return max(made * 0.75, 1.0)
    return _at_least(made)


def _before_harm(current: float, wanted: float, own: Sequence[DeltaStep], correct_enough: float) -> float:
    """`wanted`, or half the way to the nearest value in that direction with which answers were less correct."""
    hurt = [step.new for step in own if step.after and step.after.correct < correct_enough]
    ahead = [value - current for value in hurt if value != current and (value > current) == (wanted > current)]
    nearest = min(ahead, key=abs, default=None)
    if nearest is None or abs(wanted - current) < abs(nearest):
        return wanted
    return current + nearest / 2


def _at_least(change: float) -> float:
    return change if abs(change) >= SMALLEST_STEP else math.copysign(SMALLEST_STEP, change or -1)


def _bounded(delta: float) -> float:
    return round(min(BOUND, max(-BOUND, delta)), 4)


def read_step(line: str) -> DeltaStep | None:
    """The step that a line states, None for any other line."""
    found = _STEP.fullmatch(line.strip())
    if not found:
        return None
    old, new, tokens, correct = (float(found[i]) for i in range(2, 6))
    after = Observation(float(found[6]), float(found[7])) if found[6] else None
    return DeltaStep(found[1], old, new, Observation(tokens, correct), after, found[8] == "unseen")


def complete_steps(scratchpad: str, deltas: Mapping[str, float], now: Observation) -> str:
    """`scratchpad` with the results of its new steps: `now`, if the delta is still the one that the step set."""
    lines = []
    for line in scratchpad.split("\n"):
        step = read_step(line)
        if step is not None and step.after is None and not step.unseen:
            unchanged = abs(deltas.get(step.cluster, float("inf")) - step.new) < 1e-9
            step = dataclasses.replace(step, after=now) if unchanged else dataclasses.replace(step, unseen=True)
            lines.append(step.line())
        elif line.strip():
            lines.append(line)
    return newest(lines)


def newest(lines: list[str]) -> str:
    return "\n".join(list(dict.fromkeys(lines))[-MAX_LINES:])


_ROUND = re.compile(r"(\d+(?:\.\d+)?) tokens, (\d+(?:\.\d+)?) correct with (\{[^{}]*\})")
Deltas = Mapping[str, float]


@dataclass(frozen=True)
class Round:
    deltas: Deltas
    seen: Observation


def rewrite(_: str, user: str) -> dict[str, Any]:
    """The reply to `tasks.openai.prompts.rewrite_messages`."""
    responses = json_section(user, "All minibatch responses")
    now = Round(json_section(user, "Deltas used"), observe(responses))
    past = read_rounds(unquote_lines(section(user, "Evolving summary")), now.deltas)
    shares = prominences(json_section(user, "Cluster descriptions"), responses)
    first = {c: first_change(c, delta, now.seen, shares.get(c, 0.0)) / 2 for c, delta in now.deltas.items()}
    base, step = next_step(now, past, first)
    length = 1 + variant_of(user) / 2
    return {
        "deltas": {cluster: _bounded(base[cluster] + length * step[cluster]) for cluster in base},
        "summary": f"{now.seen} with {json.dumps(dict(now.deltas))}",
    }


def read_rounds(summary: str, deltas: Deltas) -> list[Round]:
    """The vectors that the summary names, oldest first; lines of another form or of other clusters are passed over."""
    rounds = []
    for line in summary.split("\n"):
        if found := _ROUND.fullmatch(line.strip()):
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


_PARENT = re.compile(r"Parent [AB] \(fitness: (.+)\)")
_CLUSTER = re.compile(r"cluster (\d+)", re.IGNORECASE)


def merge(_: str, user: str) -> dict[str, Any]:
    """The reply to `tasks.openai.prompts.merge_messages`."""
    headed = ((_PARENT.fullmatch(heading), text) for heading, text in sections(user))
    parents = [(float(found[1]), unquote_lines(text)) for found, text in headed if found]
    if len(parents) != 2:
        raise ValueError("a merge has two parents")
    fitter, other = sorted(parents, key=lambda parent: -parent[0])  # stable: the first parent wins a tie
    return {"scratchpad": join(fitter[1], other[1])}


def join(fitter: str, other: str) -> str:
    """The lines of both, the fitter's first, each once; on a cluster that both mention, only the fitter's."""
    first = [line for line in fitter.split("\n") if line.strip()]
    mentioned = {found[1] for line in first if (found := _CLUSTER.search(line))}
    others = (line for line in other.split("\n") if line.strip())
    rest = [line for line in others if not ((found := _CLUSTER.search(line)) and found[1] in mentioned)]
    # The fitter's newest lines are kept when there is no room for all.
    kept = list(dict.fromkeys(first))[-MAX_LINES:]
    return "\n".join(dict.fromkeys([*kept, *rest[: MAX_LINES - len(kept)]]))
