"""A plan: every decision of one step of the evolution, made before anything is dispatched.

A candidate is an individual to be evaluated, with what comes before and after: the merge of its parents' scratchpads,
and the mutation of one cluster with a second evaluation.  Each of these is a stage, with one record in the store.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tasks.common.validation import JsonRecord
from tasks.records import Score

Phase = Literal["pre", "mut"]
ExampleSet = Literal["training", "validation", "test", "ordering", "everyday"]
EXAMPLE_SETS: tuple[ExampleSet, ...] = ("training", "validation", "test")
"""Those that settings name.  No fitness uses "ordering", a part of training, and "everyday", which has no golds."""
StageName = str
STAGES: Mapping[StageName, str] = {
    "merge": "openai",
    "reflect": "openai",
    "answer": "gpu",
    "judge": "openai",
    "score": "cpu",
}
"""The queue of each stage.  Its task is QUEUE.NAME, in the module `tasks.QUEUE.NAME`."""


@dataclass(frozen=True)
class Merge:
    """The two scratchpads that a reflector merges, and their fitness, which weighs them."""

    scratchpad_a: str
    fitness_a: float
    scratchpad_b: str
    fitness_b: float


@dataclass(frozen=True)
class Candidate:
    """One individual of a plan; `system_prompt`, `clustering` and a smaller `max_tokens` replace the run's."""

    index: int
    deltas: tuple[float, ...]  # one a cluster, in canonical order; without any the model is not steered
    scratchpad: str = ""
    merge: Merge | None = None  # None for a clone, whose scratchpad is its parent's
    target: int | None = None  # the position of the cluster that the reflector must change
    parents: tuple[int, ...] = ()  # positions in the population
    examples: ExampleSet = "training"
    rewrite: bool = False  # the reflector proposes all deltas; the proposal is not evaluated with this candidate
    variant: int = 0  # of how many equal questions to the reflector this one is: it is to propose something else
    system_prompt: str | None = None
    repeat: int = 0  # counts further measurements of the same individual, with other seeds
    clustering: str = ""  # a content hash
    max_tokens: int = 0

    def with_delta(self, delta: float) -> tuple[float, ...]:
        """The deltas after the mutation of the target."""
        assert self.target is not None, "a mutation has a target cluster"
        return (*self.deltas[: self.target], delta, *self.deltas[self.target + 1 :])


@dataclass(frozen=True)
class StageRef:
    """One stage of one candidate: what a message names."""

    index: int
    stage: StageName
    phase: Phase

    @property
    def field(self) -> str:
        return f"{self.index}:{self.phase}:{self.stage}"


STEMS = {"population": "pop", "offspring": "child"}
"""The purposes of a generation's plans, with the stem of their names."""


def plan_name(purpose: str, generation: int) -> str:
    """The key of a plan in the store, and the stem of its candidates' node ids: "g3_pop", "g3_child", "final"."""
    return f"g{generation}_{STEMS[purpose]}" if purpose in STEMS else purpose


@dataclass(frozen=True)
class Plan(JsonRecord):
    """`purpose`: one of STEMS, or what is measured around a search (`orchestrator.report.live.STAGES`)."""

    purpose: str
    generation: int
    candidates: tuple[Candidate, ...]

    @property
    def name(self) -> str:
        return plan_name(self.purpose, self.generation)

    @property
    def is_of_generation(self) -> bool:
        """Whether the plan belongs to a generation of a search, and not to what is measured around it."""
        return self.purpose in STEMS

    def candidate(self, index: int) -> Candidate:
        return next(candidate for candidate in self.candidates if candidate.index == index)

    def node(self, index: int, phase: Phase) -> str:
        return node_id(self.name, index, phase)


def node_id(plan: str, index: int, phase: Phase) -> str:
    """The id of a candidate in the evolution tree; a child has one for each phase: g2_child3_pre, g2_child3_mut."""
    return f"{plan}{index}" + (f"_{phase}" if plan.endswith("_child") else "")


def stage_refs(candidate: Candidate) -> list[StageRef]:
    """The stages of a candidate, in order: [merge] answer judge score [reflect [answer judge score]]."""
    evaluation: tuple[StageName, ...] = ("answer", "judge", "score")
    before: tuple[StageName, ...] = evaluation if candidate.merge is None else ("merge", *evaluation)
    after: tuple[StageName, ...] = ()
    if candidate.target is not None:
        after = ("reflect", *evaluation)
    elif candidate.rewrite:  # its proposal is not evaluated with this candidate
        after = ("reflect",)
    return [
        *(StageRef(candidate.index, stage, "pre") for stage in before),
        *(StageRef(candidate.index, stage, "mut") for stage in after),
    ]


@dataclass(frozen=True)
class Evaluations:
    """Where the fitness of individuals came from."""

    computed: int = 0  # the target generated answers
    cached: int = 0  # all answers were in the store already
    carried: int = 0  # an individual of the population kept its fitness from the generation before

    def __add__(self, other: Evaluations) -> Evaluations:
        return Evaluations(self.computed + other.computed, self.cached + other.cached, self.carried + other.carried)


@dataclass(frozen=True)
class Outcome:
    """What became of a candidate, in both phases."""

    index: int
    scratchpad: str
    pre: Score
    delta: float | None  # the reflector's new value; None without a mutation, also one that was skipped
    mutated_scratchpad: str
    mut: Score | None
    seconds: Mapping[str, float]  # of each stage
    deltas: tuple[float, ...] | None = None  # the proposal for a candidate with `rewrite`
    merge_fallback: str = ""  # why no reply of a merge was usable: the scratchpad is the first parent's
    skip_reason: str = ""  # why no reply was usable
    evaluations: Evaluations = Evaluations()


def outcome(candidate: Candidate, records: Mapping[str, Mapping[str, Any]]) -> Outcome | None:
    """Put a candidate's stage records together; None while one is missing."""
    wanted = stage_refs(candidate)
    if any(ref.field not in records for ref in wanted):
        return None
    found = {(s.phase, s.stage): records[s.field] for s in wanted}
    seconds: dict[str, float] = {}
    for ref in wanted:
        seconds[ref.stage] = seconds.get(ref.stage, 0.0) + records[ref.field].get("seconds", 0.0)
    scratchpad = found["pre", "merge"]["scratchpad"] if candidate.merge else candidate.scratchpad
    reflected = found.get(("mut", "reflect"), {})
    delta, deltas = reflected.get("delta"), reflected.get("deltas")
    return Outcome(
        index=candidate.index,
        scratchpad=scratchpad,
        pre=_score(found["pre", "score"]),
        delta=delta,
        mutated_scratchpad=scratchpad if delta is None and deltas is None else reflected["scratchpad"],
        mut=None if delta is None else _score(found["mut", "score"]),
        seconds=seconds,
        deltas=None if deltas is None else tuple(deltas),
        merge_fallback=found["pre", "merge"].get("fallback", "") if candidate.merge else "",
        skip_reason=reflected.get("reason", ""),
        evaluations=evaluations(records[ref.field] for ref in wanted if ref.stage == "answer"),
    )


def evaluations(answers: Iterable[Mapping[str, Any]]) -> Evaluations:
    """Counts the records of answer stages; a stage that was skipped is none."""
    generated = [record["generated"] for record in answers if not record.get("skipped")]
    computed = sum(count > 0 for count in generated)
    return Evaluations(computed, len(generated) - computed)


def _score(record: Mapping[str, Any]) -> Score:
    return Score(**{f.name: record[f.name] for f in dataclasses.fields(Score)})
