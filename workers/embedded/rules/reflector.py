"""The reflector by rules: a step for one cluster, a step for all clusters, and the merge of two scratchpads.

One cluster: a step that helped is repeated; a step that hurt is taken back by half.  Without experience, the end of the
turn becomes more likely, numbers a little more likely, and other clusters less likely, the more so the more of the long
answers they make up.  A step is longer by a half for each time that the same was asked before.  The scratchpad has one
line for each step and its result:

    cluster 0: 0.0 -> 2.0 at 41.3 tokens, 0.75 correct; then 30.0 tokens, 0.75 correct

A new step ends in "then ?".  A step whose result is unknown, because a crossover changed the delta first, ends in "then
unseen".  Other lines are kept as long as there is room.

All clusters: the first step is half of what the rule for one cluster begins with, for each.  While vectors get better,
the step from the best before to the newest is repeated; after a worse one the next is half way back to the best.  When
that step is too small to matter, the clusters are tried one after another.  The summary holds one line for each vector:

    41.3 tokens, 0.75 correct with {"0": 2.0, "1": 0.5}

A merge has the fitter parent's lines, then the other's lines on clusters that the fitter does not mention.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.common.escaping import unquote_lines
from tasks.openai.reflect import variant_of
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


@dataclass(frozen=True)
class DeltaStep:
    """A change of one delta. `after` is None while its result is not known, and for good when `unseen`."""

    cluster: str
    old: float
    new: float
    before: Observation
    after: Observation | None = None
    unseen: bool = False

    @property
    def gain(self) -> float | None:
        return None if self.after is None else self.after.value - self.before.value

    def line(self) -> str:
        outcome = "unseen" if self.unseen else "?"
        if self.after is not None:
            outcome = f"{self.after.tokens:.1f} tokens, {self.after.correct:.4g} correct"
        before = f"{self.before.tokens:.1f} tokens, {self.before.correct:.4g} correct"
        return f"cluster {self.cluster}: {self.old!r} -> {self.new!r} at {before}; then {outcome}"


@dataclass(frozen=True)
class MutationPrompt:
    """A parsed prompt.

    `prominence` is the target's share of the long answers over that of the mean cluster.  `variant` counts how often
    the same was asked before.
    """

    target: str
    deltas: Mapping[str, float]
    now: Observation
    answers: int
    prominence: float
    variant: int = 0

    @property
    def current(self) -> float:
        return self.deltas[self.target]


def mutate(system: str, user: str) -> dict[str, Any]:
    """The reply to `tasks.openai.reflect.mutation_messages`."""
    del system
    prompt = parse_prompt(user)
    scratchpad = complete_steps(unquote_lines(section(user, "Current scratchpad")), prompt.deltas, prompt.now)
    new = choose_delta(prompt, read_steps(scratchpad))
    line = DeltaStep(prompt.target, prompt.current, new, prompt.now).line()
    return {"delta": new, "scratchpad": newest([*scratchpad.split("\n"), line] if scratchpad else [line])}


def parse_prompt(user: str) -> MutationPrompt:
    """The user message as data."""
    responses = json_section(user, "Training-set responses")
    target = section(user, "Target cluster").strip()
    return MutationPrompt(
        target=target,
        deltas=json_section(user, "Current delta vector"),
        now=observe(responses),
        answers=len(responses),
        prominence=prominences(json_section(user, "Cluster descriptions"), responses).get(target, 0.0),
        variant=variant_of(user),
    )


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
    shares = cluster_shares(descriptions, long_answers)
    mean_share = sum(shares.values()) / len(shares) if shares else 0.0
    return {cluster: share / mean_share for cluster, share in shares.items()} if mean_share else {}


def cluster_shares(descriptions: Sequence[Mapping[str, Any]], answers: Sequence[str]) -> dict[str, float]:
    """For each cluster the share of the answers' words that are among its examples (or in its description)."""
    words = [word.lower() for text in answers for word in _WORD.findall(text)]
    shares = {}
    for description in descriptions:
        examples = description.get("examples") or _WORD.findall(str(description.get("description", "")))
        known = {str(token).strip().lower() for token in examples} - {""}
        shares[str(description["id"])] = sum(word in known for word in words) / len(words) if words else 0.0
    return shares


def choose_delta(prompt: MutationPrompt, steps: Sequence[DeltaStep]) -> float:
    """The target's new delta: within +-8, and never the current one."""
    own = [step for step in steps if step.cluster == prompt.target and step.after is not None]
    change = _next_change(prompt, own[-1]) if own else first_change(prompt)
    best = max((past.after.correct for past in steps if past.after), default=0.0)
    margin = 0.5 / prompt.answers  # less than one answer
    lost = best - prompt.now.correct > 3 * margin
    if prompt.target == END_OF_TURN and change > 0 and prompt.current > 0 and lost:
        change = -1.0  # an end that comes too early cuts answers off
    change *= 1 + prompt.variant / 2
    wanted = _before_harm(prompt.current, prompt.current + change, own, best - margin)
    new = round(min(BOUND, max(-BOUND, wanted)), 4)
    if abs(new - prompt.current) < SMALLEST_STEP / 2:  # at the bound, or at a value that hurt
        new = round(prompt.current - (2 * SMALLEST_STEP if prompt.current > 0 else -2 * SMALLEST_STEP), 4)
    return new


def first_change(prompt: MutationPrompt) -> float:
    if prompt.target == END_OF_TURN:
        return 2.0 if prompt.now.tokens > SHORT_ANSWER_TOKENS else 1.0
    if prompt.target == NUMBERS:
        return 0.5 if prompt.current < ENOUGH_FOR_NUMBERS else -SMALLEST_STEP
    if prompt.prominence >= 1.5:
        return -1.0
    return -0.5 if prompt.prominence >= 0.75 else -SMALLEST_STEP


def _next_change(prompt: MutationPrompt, last: DeltaStep) -> float:
    made = last.new - last.old
    gain = last.gain or 0.0
    if gain < 0:
        return _at_least(-made / 2)
    if prompt.target == NUMBERS and prompt.current >= ENOUGH_FOR_NUMBERS and made > 0:
        return -SMALLEST_STEP
    if prompt.target == END_OF_TURN and made > 0:
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
    if abs(change) >= SMALLEST_STEP:
        return change
    return SMALLEST_STEP if change > 0 else -SMALLEST_STEP


def read_step(line: str) -> DeltaStep | None:
    """The step that a line states, None for any other line."""
    found = _STEP.fullmatch(line.strip())
    if not found:
        return None
    old, new, tokens, correct = (float(found[i]) for i in range(2, 6))
    after = Observation(float(found[6]), float(found[7])) if found[6] else None
    return DeltaStep(found[1], old, new, Observation(tokens, correct), after, found[8] == "unseen")


def read_steps(scratchpad: str) -> list[DeltaStep]:
    """The steps of a scratchpad, oldest first."""
    return [step for line in scratchpad.split("\n") if (step := read_step(line))]


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
    """The newest lines, each once, at most `MAX_LINES`."""
    return "\n".join(list(dict.fromkeys(lines))[-MAX_LINES:])


_ROUND = re.compile(r"(\d+(?:\.\d+)?) tokens, (\d+(?:\.\d+)?) correct with (\{[^{}]*\})")
Deltas = Mapping[str, float]


@dataclass(frozen=True)
class Round:
    """A vector, and what the answers with it were like."""

    deltas: Deltas
    seen: Observation

    def line(self) -> str:
        return f"{self.seen.tokens:.1f} tokens, {self.seen.correct:.4g} correct with {json.dumps(dict(self.deltas))}"


def rewrite(system: str, user: str) -> dict[str, Any]:
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


def _first_steps(now: Round, answers: int, prominence: Mapping[str, float]) -> Deltas:
    return {
        cluster: first_change(MutationPrompt(cluster, now.deltas, now.seen, answers, prominence.get(cluster, 0.0))) / 2
        for cluster in now.deltas
    }


def _bounded(delta: float) -> float:
    return round(min(BOUND, max(-BOUND, delta)), 4)


_PARENT = re.compile(r"Parent [AB] \(fitness: (.+)\)")
_CLUSTER = re.compile(r"cluster (\d+)", re.IGNORECASE)


def merge(system: str, user: str) -> dict[str, Any]:
    """The reply to `tasks.openai.merge.merge_messages`."""
    del system
    parents = [
        (float(found[1]), unquote_lines(text))
        for heading, text in sections(user)
        if (found := _PARENT.fullmatch(heading))
    ]
    if len(parents) != 2:
        raise ValueError("a merge has two parents")
    fitter, other = sorted(parents, key=lambda parent: -parent[0])  # stable: the first parent wins a tie
    return {"scratchpad": join(fitter[1], other[1])}


def join(fitter: str, other: str) -> str:
    """The lines of both, the fitter's first, each once; on a cluster that both mention, only the fitter's."""
    first = [line for line in fitter.split("\n") if line.strip()]
    mentioned = {found[1] for line in first if (found := _CLUSTER.search(line))}
    rest = [
        line
        for line in other.split("\n")
        if line.strip() and not ((found := _CLUSTER.search(line)) and found[1] in mentioned)
    ]
    # The fitter's newest lines are kept when there is no room for all.
    kept = list(dict.fromkeys(first))[-MAX_LINES:]
    return "\n".join(dict.fromkeys([*kept, *rest[: MAX_LINES - len(kept)]]))
