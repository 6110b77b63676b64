"""The answers of one finished run to one of its sets of questions, by system, from `measurements.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orchestrator.report.systems import Measurement, SetName, SystemKind
from orchestrator.runs.superiority import Answered
from tasks.models import Constrained
from tasks.objective import fitness_of

PLAIN = "none"

Questions = NDArray[np.int64]
"""Indices [n] of questions of the set."""


def measurements_of(run: Path, set_name: SetName) -> Iterator[tuple[str, SystemKind, Measurement]]:
    """Name, kind and answers of each system that was asked the set, without its repeats.

    run: the output folder.  Raises: FileNotFoundError for a run that has not ended.
    """
    for line in (run / "measurements.jsonl").read_text("utf-8").splitlines():
        one = json.loads(line)
        if one["set"] == set_name and not one["repeat"]:
            answers = Measurement(tuple(one["examples"]), tuple(one["tokens"]), tuple(one["correct"]), one["fitness"])
            yield one["system"], one["kind"], answers


class Answers:
    """Tokens and verdicts of each system that answered the whole set, by its name, on the same questions."""

    def __init__(self, run: Path, set_name: SetName) -> None:
        """run: the output folder.

        Raises: SystemExit where the plain model did not answer the set; FileNotFoundError.
        """
        asked = {name: (kind, answers) for name, kind, answers in measurements_of(run, set_name)}
        if PLAIN not in asked:
            raise SystemExit(f"{run}: no {set_name} answers of the plain model")
        self.count = len(asked[PLAIN][1].examples)
        whole = {name: one for name, one in asked.items() if len(one[1].examples) == self.count}
        self.kinds = {name: kind for name, (kind, _) in whole.items()}
        self.by_system = {name: Answered.of([(one.tokens, one.correct)]) for name, (_, one) in whole.items()}

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
