"""`open_run`: what a run has found, as typed values and as pandas data frames.

run = open_run("outputs/evolve")
run.report, run.individuals, run.best_deltas        # typed, without pandas (orchestrator/results.py)
run.history(), run.lineage(), run.answers()         # data frames
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.evolution_results import GenerationResult, IndividualResult
from orchestrator.output import run_file
from orchestrator.results import RunResults

if TYPE_CHECKING:
    import pandas as pd

Row = Mapping[str, Any]


def open_run(path: str | PathLike[str]) -> OpenRun:
    """The run in an output folder, finished or not.  Raises: OutputError when the folder holds none."""
    run_file(Path(path))
    return OpenRun(Path(path))


@dataclass(frozen=True)
class OpenRun(RunResults):
    """`RunResults`, and data frames of them.  The frames need pandas, and nothing else here does.

    Each method raises ImportError where pandas is not installed, and OutputError for a damaged file.
    """

    def history(self) -> pd.DataFrame:
        """One row a generation.

        best, mean, best_ever; evaluations as computed, cached and carried; calls, cost_usd; seconds_* by stage;
        tokens_* by kind.
        """
        return _frame([_generation_row(one) for one in self.generations], "generation")

    def lineage(self) -> pd.DataFrame:
        """One row an individual, by name.

        generation, stage, fitness, mean_tokens, correctness, is_elite, target, scratchpad; parents, a tuple of names;
        delta_* by cluster, in logits.
        """
        parents: dict[str, list[str]] = {}
        for edge in self.descent:
            if edge.kind != "next":
                parents.setdefault(edge.end, []).append(edge.start)
        return _frame([_individual_row(one, parents.get(one.name, ())) for one in self.individuals], "name")

    def answers(self) -> pd.DataFrame:
        """One row a question of each set: the plain model's answer (*_before), and the winner's (*_after).

        Empty before the run has ended.
        """
        rows = []
        for comparison in self.comparisons:
            for before, after in comparison.pairs():
                row = {"set": comparison.name, "question": before.question, "gold": before.gold, "id": before.example}
                for side, answer in (("before", before), ("after", after)):
                    row |= {f"{name}_{side}": getattr(answer, name) for name in ANSWERED}
                rows.append(row)
        return _frame(rows, "id", ["set", "question", "gold"])


ANSWERED = ("text", "tokens", "is_correct", "reasoning")


def _generation_row(one: GenerationResult) -> Row:
    return {
        "generation": one.generation,
        "best": one.best,
        "mean": one.mean,
        "best_ever": one.best_ever,
        **dataclasses.asdict(one.evaluations),
        "calls": one.calls,
        "cost_usd": one.cost_usd,
        **{f"seconds_{name}": value for name, value in one.seconds.items()},
        **{f"tokens_{name}": value for name, value in one.tokens.items()},
    }


def _individual_row(one: IndividualResult, parents: Sequence[str]) -> Row:
    row = {field.name: getattr(one, field.name) for field in dataclasses.fields(one) if field.name != "deltas"}
    return {**row, "parents": tuple(parents), **{f"delta_{cluster}": value for cluster, value in one.deltas.items()}}


def _frame(rows: Sequence[Row], index: str, columns: Sequence[str] = ()) -> pd.DataFrame:
    """`columns` are those of a frame without rows."""
    try:
        import pandas
    except ImportError:
        raise ImportError("data frames need pandas: pip install '.[pandas]'") from None
    frame = pandas.DataFrame(list(rows), columns=None if rows else [index, *columns])
    return frame.set_index(index)
