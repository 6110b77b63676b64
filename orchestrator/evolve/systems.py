"""Whatever answers questions is a system: the plain model, a system prompt, a vector, a cut, an individual.

`systems.json` has all systems of a run with what was measured of each, and what was decided.  It is written after each
stage, and once after the last three; a run that is resumed takes the stages that it holds as they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from orchestrator.report.statistics import CorrectnessChange, Measurement, NonInferiority
from orchestrator.runs.folder import OutputError, OutputFolder, find_json
from tasks.plan import Candidate, Evaluations, ExampleSet, Plan
from tasks.records import JudgedAnswer
from tasks.store.keys import MEASURED, content_hash

if TYPE_CHECKING:
    from orchestrator.evolve.questions import Examples
    from orchestrator.farm.work import FarmEvaluator
    from tasks.store.store import Store

SYSTEMS_FILE = "systems.json"
SystemKind = Literal["plain", "prompt", "cut", "vector", "evolved", "random"]
PLAIN = "plain"
"""The name of the plain model: the user's own system prompt, and nothing added."""


@dataclass(frozen=True)
class System:
    """What a request is made of, and what was measured on each set of questions; None where it was not asked.

    kind: "plain" is the model as it is, "prompt" another system prompt, "cut" a limit of tokens or a stop after the
    first sentence, "vector" deltas that need no search, "evolved" deltas of the search, "random" drawn ones.
    arm: the name of its system prompt.  deltas: one a cluster of `clustering` (a content hash; "" is the run's), none
    without steering.  max_tokens: where an answer is cut; 0 is the cap of the run.
    """

    name: str
    kind: SystemKind
    system_prompt: str
    arm: str = PLAIN
    deltas: tuple[float, ...] = ()
    clustering: str = ""
    max_tokens: int = 0
    training: Measurement | None = None
    ordering: Measurement | None = None
    validation: Measurement | None = None
    test: Measurement | None = None
    everyday: Measurement | None = None  # none of its answers counts as right

    def on(self, which: ExampleSet) -> Measurement:
        """What was measured on a set that the system has been asked."""
        found: Measurement | None = getattr(self, which)
        assert found is not None, f"{self.name} was not asked the {which} set"
        return found

    def measured(self, which: ExampleSet, found: Measurement) -> System:
        changed: dict[str, Any] = {which: found}
        return replace(self, **changed)

    def candidate(self, which: ExampleSet, repeat: int = 0) -> Candidate:
        return Candidate(
            0, self.deltas, examples=which, system_prompt=self.system_prompt, clustering=self.clustering,
            max_tokens=self.max_tokens, repeat=repeat,
        )  # fmt: skip


@dataclass(frozen=True)
class Arm:
    """A system prompt with clusters of its own, in which a search runs.  clustering: a content hash."""

    name: str
    system_prompt: str
    clustering: str


@dataclass(frozen=True)
class Member:
    """On the ordering questions; `bound`: the one-sided lower end, 95 %, of the change against the plain model."""

    name: str
    mean_tokens: float
    correct: float
    bound: float


@dataclass(frozen=True)
class MemberTest:
    """The test of one member on the validation questions."""

    name: str
    change: CorrectnessChange
    result: NonInferiority


@dataclass(frozen=True)
class Book:
    """`systems.json`: what a run has measured and decided.

    cap: the most tokens of an answer; arms: none before the search is prepared; order: the members of the front that
    the validation set tests, None before it is decided; generations: after how many it was decided; tests: up to the
    first member that is not shown; winner: the name, "" before it is chosen; flips: how many of the plain model's
    answers to the ordering questions changed sides when they were asked once more; rounds: how often the validation
    set was used to choose; test_uses: how many choices, of this run and others, any of these test questions measured.
    """

    cap: int = 0
    arms: tuple[Arm, ...] = ()
    systems: tuple[System, ...] = ()
    order: tuple[Member, ...] | None = None
    generations: int = 0
    tests: tuple[MemberTest, ...] = ()
    winner: str = ""
    flips: int = 0
    rounds: int = 1
    test_uses: int = 0

    def system(self, name: str) -> System:
        return next(one for one in self.systems if one.name == name)

    def known(self, one: System) -> System:
        """The system of this name with what was measured of it, or else this one."""
        return next((other for other in self.systems if other.name == one.name), one)

    @property
    def plain(self) -> System:
        return self.system(PLAIN)

    @property
    def passed(self) -> tuple[str, ...]:
        """Those of which a loss of the margin or more is excluded, in order."""
        return tuple(one.name for one in self.tests if one.result.is_shown)

    @property
    def ordering_set(self) -> ExampleSet:
        """The set that put the front in order: where there are too few questions, it is the training set."""
        return "ordering" if self.plain.ordering else "training"

    @property
    def contender(self) -> System:
        """The winner; where the plain model stays, the first system of the order, which is the most promising."""
        return self.system(self.order[0].name if self.winner == PLAIN and self.order else self.winner)

    def of_kind(self, *kinds: SystemKind) -> list[System]:
        return [one for one in self.systems if one.kind in kinds]

    def having(self, which: ExampleSet) -> list[System]:
        """The systems that were asked this set."""
        return [one for one in self.systems if getattr(one, which) is not None]

    def with_systems(self, found: Sequence[System]) -> Book:
        """With these in place of those of the same names, new ones behind the others."""
        changed = {one.name: one for one in found}
        kept = tuple(changed.pop(one.name, one) for one in self.systems)
        return replace(self, systems=(*kept, *changed.values()))

    def write(self, output: OutputFolder) -> Book:
        output.write_json(SYSTEMS_FILE, asdict(self))
        return self


def read_book(output: OutputFolder) -> Book:
    """That of the output folder; an empty one before anything was measured."""
    book = find_json(path := output.path / SYSTEMS_FILE, Book) or Book()
    if not book.arms and (output.state.exists() or output.individuals.exists()):
        raise OutputError(f"{path} is missing, or has no arms, and the run has searched in them: restore it")
    return book


Answers = tuple[JudgedAnswer, ...]


@dataclass
class Measurer:
    """Evaluates systems on the farm, in plans of candidates that no search made."""

    evaluate: FarmEvaluator
    examples: Examples

    @property
    def store(self) -> Store:
        return self.evaluate.dispatcher.store

    @property
    def run_id(self) -> str:
        return self.evaluate.dispatcher.run_id

    def measure(self, purpose: str, systems: Sequence[System], *sets: ExampleSet) -> list[System]:
        """The systems with what each set shows of them, from one plan of this purpose; what they have is not asked."""
        new = {one.name: one for one in systems}
        asked = [(one, which) for which in sets for one in systems if getattr(one, which) is None]
        found = self.answers(purpose, [one.candidate(which) for one, which in asked]) if asked else []
        for (one, which), given in zip(asked, found, strict=True):
            new[one.name] = new[one.name].measured(which, measurement_of(given))
        return list(new.values())

    def answers(self, purpose: str, candidates: Sequence[Candidate]) -> list[Answers]:
        """The graded answers of each candidate.  The plan's records are dropped afterwards; the answers are not."""
        numbered = tuple(replace(candidate, index=i) for i, candidate in enumerate(candidates))
        plan = Plan(purpose, 0, numbered)
        done = sum((outcome.evaluations for outcome in self.evaluate(plan)), Evaluations())
        # Once for each plan: a process that was killed before it had written its book evaluates the plan again
        cap, store, run_id = self.store.run(self.run_id).target.sampling.max_new_tokens, self.store, self.run_id
        counts = {content_hash(cap, plan.to_json()): asdict(done), **_counts(store, run_id)}
        store.put_metadata(run_id, MEASURED, json.dumps(counts))
        found = [store.judged(run_id, plan.name, c.index, self.examples[c.examples]) for c in numbered]
        store.forget_plans(run_id, [plan.name])
        return found


def measured_evaluations(store: Store, run_id: str) -> Evaluations:
    """What has been evaluated for a run outside of its search, in all its sessions."""
    return sum((Evaluations(**counts) for counts in _counts(store, run_id).values()), Evaluations())


def _counts(store: Store, run_id: str) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = json.loads(store.metadata(run_id, MEASURED) or "{}")
    return counts


def measurement_of(answers: Answers) -> Measurement:
    return Measurement(
        examples=tuple(one.example for one in answers),
        tokens=tuple(one.tokens for one in answers),
        right=tuple(one.is_right for one in answers),
        whole=tuple(one.is_whole for one in answers),
        loops=tuple(one.is_loop for one in answers),
    )
