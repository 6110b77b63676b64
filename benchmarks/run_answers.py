"""The answers of one finished run to one of its sets of questions, by system, from `measurements.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orchestrator.runs.superiority import Answered
from tasks.models import Constrained
from tasks.objective import fitness_of

PLAIN = "none"

Questions = NDArray[np.int64]
"""Indices [n] of questions of the set."""


class Answers:
    """Tokens and verdicts of each system that answered the whole set, by its name, on the same questions."""

    def __init__(self, run: Path, set_name: str) -> None:
        """run: the output folder.  set_name: "validation" or "test".

        Raises: SystemExit where the plain model did not answer the set.
        """
        lines = [json.loads(line) for line in (run / "measurements.jsonl").read_text("utf-8").splitlines()]
        first = {line["system"]: line for line in lines if line["set"] == set_name and not line["repeat"]}
        if PLAIN not in first:
            raise SystemExit(f"{run}: no {set_name} answers of the plain model")
        self.count = len(first[PLAIN]["examples"])
        whole = {name: line for name, line in first.items() if len(line["examples"]) == self.count}
        self.kinds = {name: line["kind"] for name, line in whole.items()}
        self.by_system = {name: Answered.of([(line["tokens"], line["correct"])]) for name, line in whole.items()}

    def named(self, kind: str) -> list[str]:
        return [name for name, system_kind in self.kinds.items() if system_kind == kind]

    def on(self, name: str, questions: Questions) -> Answered:
        return Answered(*(values[questions] for values in self.by_system[name]))

    def fitness(self, name: str, questions: Questions) -> float:
        """Relative to the plain model on these questions."""
        plain, ours = self.on(PLAIN, questions), self.on(name, questions)
        objective = Constrained(plain.tokens.mean(), plain.correct.mean())
        return fitness_of(ours.tokens.mean(), ours.correct.mean(), objective)

    def best(self, names: Sequence[str], questions: Questions) -> str:
        return max(names, key=lambda name: self.fitness(name, questions))
