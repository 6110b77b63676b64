"""A plan: every decision of one step of the evolution, made before anything is dispatched.

A plan is a list of candidates.  A candidate is an individual that has to be evaluated, and whatever comes before and
after that: the merge of its parents' scratchpads, and the mutation of one cluster with a second evaluation.
Each of these is a stage; a stage of a phase leaves one record in the store under `StageRef.field`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tasks.common.validation import JsonRecord
from tasks.records import Score

Phase = Literal["pre", "mut"]
ExampleSet = Literal["training", "validation", "test", "ordering", "quarter", "half"]
EXAMPLE_SETS: tuple[ExampleSet, ...] = ("training", "validation", "test")
"""The sets that settings name.  "ordering" is the part of the training questions that no fitness uses; "quarter" and
"half" are the parts of the rest on which prompts are halved."""
StageName = str
"""The name of an entry of `STAGES`."""
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
    """One individual of a plan.

    `deltas` has one float a cluster, in canonical order; without any, the model is not steered.  `merge` is None for a
    clone, whose `scratchpad` is its parent's.  `target` is the position of the cluster that the reflector must change,
    or None when the individual is not mutated.  `parents` are positions in the population.

    With `rewrite`, the reflector proposes a new delta for every cluster instead; the proposal is not evaluated with
    this candidate.  `variant` counts the earlier candidates of the plan with equal deltas and an equal target: the
    reflector is to propose something else for each.

    `system_prompt`, `clustering` (a content hash, which the deltas belong to) and a smaller `max_tokens` replace the
    run's.  `repeat` counts further measurements of the same individual: each has answers of its own, with other seeds.
    """

    index: int
    deltas: tuple[float, ...]
    scratchpad: str = ""
    merge: Merge | None = None
    target: int | None = None
    parents: tuple[int, ...] = ()
    examples: ExampleSet = "training"
    rewrite: bool = False
    variant: int = 0
    system_prompt: str | None = None
    repeat: int = 0
    clustering: str = ""
    max_tokens: int = 0


@dataclass(frozen=True)
class StageRef:
    """One stage of one candidate: what a message names, and the field of its record."""

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
    """Where the fitness of individuals came from.

    computed  the target generated answers
    cached    all answers were in the store already
    carried   an individual of the population kept its fitness from the generation before
    """

    computed: int = 0
    cached: int = 0
    carried: int = 0

    def __add__(self, other: Evaluations) -> Evaluations:
        return Evaluations(self.computed + other.computed, self.cached + other.cached, self.carried + other.carried)


@dataclass(frozen=True)
class Outcome:
    """What became of a candidate: its scores, the scratchpads on its way, and the seconds each stage took.

    `delta` is the reflector's new value for the target cluster; None when the candidate was not mutated, or when
    no reply of the reflector was usable and the mutation was skipped; `skip_reason` then says why.  `deltas` is the
    reflector's proposal for a candidate with `rewrite`, None likewise; `mut` is then None.  `merge_fallback` says why
    no reply of a merge was usable, so that the scratchpad is the first parent's.  `evaluations` counts those of both
    phases.
    """

    index: int
    scratchpad: str
    pre: Score
    delta: float | None
    mutated_scratchpad: str
    mut: Score | None
    seconds: Mapping[str, float]
    deltas: tuple[float, ...] | None = None
    merge_fallback: str = ""
    skip_reason: str = ""
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
