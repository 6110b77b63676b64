"""A measurer whose answers a function gives, for tests of what is measured before and after a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from orchestrator.report.statistics import JudgedAnswer
from orchestrator.runs.measuring import Answers, Measurer
from tasks.models import Example
from tasks.plan import Candidate, Evaluations
from tasks.store.store import Store

Respond = Callable[[Candidate, int], tuple[int, bool]]
"""Tokens and verdict of a candidate's answer to the question of this number."""


def questions(prefix: str, count: int) -> list[Example]:
    return [Example(f"{prefix}{number}", "a context", f"question {number}?", str(number)) for number in range(count)]


class SimulatedMeasurer(Measurer):
    """`asked` has the name and the candidates of each plan."""

    def __init__(self, respond: Respond, store: Store | None = None, **sets: int) -> None:
        self.respond, self._store = respond, store
        self.examples = {which: questions(which, count) for which, count in sets.items()}
        self.evaluations = Evaluations()
        self.asked: list[tuple[str, tuple[Candidate, ...]]] = []

    @property
    def store(self) -> Store:
        assert self._store is not None
        return self._store

    @property
    def run_id(self) -> str:
        return "simulated"

    def answers(self, name: str, generation: int, candidates: Sequence[Candidate]) -> list[Answers]:
        self.asked.append((name, tuple(candidates)))
        self.evaluations += Evaluations(computed=len(candidates))
        return [self._answers(candidate) for candidate in candidates]

    def _answers(self, candidate: Candidate) -> Answers:
        asked = self.examples[candidate.examples]
        graded = [(example, self.respond(candidate, int(example.gold))) for example in asked]
        return tuple(
            JudgedAnswer(example.id, tokens, is_correct, "so", example.question, example.gold, "")
            for example, (tokens, is_correct) in graded
        )
