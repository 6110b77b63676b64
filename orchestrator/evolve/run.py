"""The kind of runs that `orchestrator evolve` starts, by their output folders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from orchestrator.evolve.records import read_history
from orchestrator.evolve.resume import saved_settings, written_settings
from orchestrator.farm.connection import FarmConnection, address_of, open_farm
from orchestrator.report.format import format_evaluations
from orchestrator.runs.folder import OutputError, OutputFolder, find_json
from orchestrator.runs.kinds import STEP_FILE, Figures, RunKind, RunProgress
from tasks.plan import Evaluations

COUNTS = ("computed", "cached", "carried")  # evaluations


class EvolveKind(RunKind):
    name = "evolve"

    def progress(self, folder: Path) -> RunProgress:
        output = OutputFolder(folder)
        history = read_history(output)
        try:
            written = written_settings(output).get("NGEN", "")
        except OutputError:
            written = ""
        last = max(history[-1]["population"], key=lambda p: p["fitness"]) if history else None
        return RunProgress(
            unit="generations",
            done=len(history),
            total=int(written) if written.isdecimal() else None,
            is_finished=output.answers.exists(),
            figures={
                "first_fitness": history[0]["population"][0]["fitness"] if history else None,
                "best_fitness": history[-1]["best_ever"] if history else None,
                "mean_tokens": last and last["mean_tokens"],
                "correctness": last and last["correctness"],
                **{name: float(sum(g["evaluations"][name] for g in history)) for name in COUNTS},
            },
            step=find_json(folder / STEP_FILE, str) or "",
        )

    def figure_lines(self, figures: Figures) -> Sequence[tuple[str, str]]:
        if figures["best_fitness"] is None:
            return ()
        counts = Evaluations(*(int(figures[name] or 0) for name in COUNTS))
        return (
            ("evaluated", f"{format_evaluations(counts)}, in the search"),
            ("best ever", f"{figures['best_fitness']:.4f} (generation 0 began with {figures['first_fitness']:.4f})"),
            ("length", f"{figures['mean_tokens']:.1f} tokens an answer in the best of the last population"),
            ("correct", f"{figures['correctness']:.1%} of the training set"),
        )

    def summary(self, figures: Figures) -> str:
        best, correct = figures["best_fitness"], figures["correctness"]
        words = [] if best is None else [f"best ever {best:.4f}"]
        return ", ".join(words if correct is None else [*words, f"{correct:.1%} correct"])

    def farm_address(self, folder: Path) -> str:
        return address_of(saved_settings(folder))

    def open_farm(self, folder: Path, notify: Callable[[str], None]) -> AbstractContextManager[FarmConnection]:
        return open_farm(saved_settings(folder), notify)

    def resume(self, folder: Path, overrides: Sequence[str], only: Sequence[str], *, plain: bool) -> int:
        # Imported here: a command that only shows a run needs neither DEAP nor reports.
        from orchestrator.evolve.session import start_evolution

        return start_evolution(saved_settings(folder, overrides), fresh=False, plain=plain, only=only).exit()


KIND: RunKind = EvolveKind()
