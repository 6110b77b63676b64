"""A measurer whose answers a function gives, for tests of what is measured before and after a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from orchestrator.evolve.systems import Answers, Measurer
from orchestrator.settings.kconfig import load_settings
from orchestrator.settings.options import Settings
from tasks.plan import Candidate
from tasks.records import Example, JudgedAnswer
from tasks.store.store import Store

EVOLVE_CONFIG = Path(__file__).parents[1] / "configs" / "evolve.config"


class Reply(NamedTuple):
    tokens: int
    right: bool = True
    loop: bool = False


Respond = Callable[[Candidate, int], Reply]
"""A candidate's answer to the question of this number in its set."""


def questions(prefix: str, count: int) -> list[Example]:
    return [Example(f"{prefix}{number}", "a context", f"question {number}?", str(number)) for number in range(count)]


class SimulatedMeasurer(Measurer):
    """`asked` has the name and the candidates of each plan."""

    def __init__(self, respond: Respond, store: Store | None = None, **sets: int) -> None:
        self.respond, self._store = respond, store
        self.examples = {which: questions(f"{which} ", count) for which, count in sets.items()}
        self.asked: list[tuple[str, tuple[Candidate, ...]]] = []

    @property
    def store(self) -> Store:
        assert self._store is not None
        return self._store

    @property
    def run_id(self) -> str:
        return "simulated"

    def answers(self, name: str, candidates: Sequence[Candidate]) -> list[Answers]:
        self.asked.append((name, tuple(candidates)))
        return [self._answers(candidate) for candidate in candidates]

    def _answers(self, candidate: Candidate) -> Answers:
        asked = self.examples[candidate.examples]
        replies = [(example, self.respond(candidate, int(example.gold))) for example in asked]
        return tuple(
            JudgedAnswer(example.id, one.tokens, one.right, "so", example.question, example.gold, "", True, one.loop)
            for example, one in replies
        )


def evolve_settings(**options: object) -> Settings:
    """Those of `make evolve`, with other options by name."""
    return load_settings(EVOLVE_CONFIG, {name.upper(): str(value) for name, value in options.items()})
