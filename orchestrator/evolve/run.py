"""The kind of runs that `orchestrator evolve` starts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from orchestrator.callbacks import Callback, Callbacks
from orchestrator.console import raise_on_signals
from orchestrator.evolve.records import read_history, read_in_progress
from orchestrator.evolve.resume import saved_settings, written_settings
from orchestrator.farm.connection import FarmConnection, address_of, open_farm
from orchestrator.report.format import format_evaluations
from orchestrator.runs.folder import OutputError, OutputFolder
from orchestrator.runs.kinds import Figures, RunKind, RunProgress
from orchestrator.settings.options import Settings
from tasks.plan import Evaluations

if TYPE_CHECKING:
    from orchestrator.evolve.fork import Fork
    from orchestrator.runs.session import Ending


def start_evolution(
    settings: Settings,
    *,
    fresh: bool,
    plain: bool,
    only: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    stream: TextIO | None = None,
    fork: Fork | None = None,
    retry_wait_s: float = 0.0,
) -> Ending:
    """Run, and write to `stream` (standard output) how it goes and what it came to.

    Of what has failed, `only` names what is to be retried.  `callbacks` are called beside those that the settings name.
    A run that begins with what is in `fork` has settings that fit it (`Fork.fitting`).  With nothing left but failed
    tasks it waits `retry_wait_s` for a retry before it parks.
    """
    # Imported here: a command that only shows a run needs neither DEAP nor reports.
    from orchestrator.evolve.resume import check_resumable, check_same_questions
    from orchestrator.evolve.session import Evolution, run_evolution
    from orchestrator.evolve.setup import check_judge, choose_examples
    from orchestrator.report.live import open_view
    from orchestrator.report.text import final_report
    from orchestrator.runs.session import Driving, log_to, settings_callbacks
    from orchestrator.settings.inputs import prompts_of

    stream = stream or sys.stdout
    examples = choose_examples(settings)
    check_judge(settings, examples)
    prompts_of(settings)
    named = settings_callbacks(settings.callbacks, "CONFIG_CALLBACKS")
    output = OutputFolder(settings.output_dir)
    if fresh and (aside := output.rotate()):
        print(f"the earlier run is now in {aside}", file=stream)
    output.check_kind("evolve")
    check_resumable(output, settings)
    check_same_questions(output, examples)
    if fork is not None:
        fork.check(output)
    output.open()
    if fork is not None:
        fork.write(output)
    log_to(output.log, "INFO")
    raise_on_signals()
    view = open_view(stream, plain=plain)
    told = Callbacks([*named, *callbacks], view.notify)
    if fork is not None:
        view.notify(f"begins with {fork.folder} at {fork.at}")

    raise_budget = f"--set BUDGET_USD={2 * settings.budget_usd:g}"
    with Driving(output, told, close=view.close, raise_budget=raise_budget) as driving:
        asked = Evolution(settings, examples, output, view, told, tuple(only), retry_wait_s)
        text = final_report(run_evolution(asked, open_farm))
        output.write("report.txt", text + "\n")
        view.close()
        print(text, file=stream)
    return driving.ending


COUNTS = ("computed", "cached", "carried")  # evaluations


class EvolveKind(RunKind):
    """An evolution, by its output folder."""

    name = "evolve"

    def progress(self, folder: Path) -> RunProgress:
        output = OutputFolder(folder)
        history = read_history(output)
        stopped = read_in_progress(folder)
        last = max(history[-1]["population"], key=lambda p: p["fitness"]) if history else None
        return RunProgress(
            unit="generations",
            done=len(history),
            total=_generations(output),
            is_finished=output.answers.exists(),
            figures={
                "first_fitness": history[0]["population"][0]["fitness"] if history else None,
                "best_fitness": history[-1]["best_ever"] if history else None,
                "mean_tokens": last and last["mean_tokens"],
                "correctness": last and last["correctness"],
                "in_progress_evaluations": stopped and stopped["evaluations"],
                "in_progress_best_fitness": stopped and stopped["best_fitness"],
                **{name: float(sum(g["evaluations"][name] for g in history)) for name in COUNTS},
            },
        )

    def figure_lines(self, figures: Figures) -> Sequence[tuple[str, str]]:
        stopped, best = figures["in_progress_evaluations"], figures["in_progress_best_fitness"]
        so_far = "" if best is None else f", best so far {best:.4f}"
        lines = [] if stopped is None else [("stopped", f"in a generation with {stopped:.0f} evaluations done{so_far}")]
        if figures["best_fitness"] is None:
            return tuple(lines)
        counts = Evaluations(*(int(figures[name] or 0) for name in COUNTS))
        return (
            *lines,
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
        return start_evolution(saved_settings(folder, overrides), fresh=False, plain=plain, only=only).exit()


def _generations(output: OutputFolder) -> int | None:
    """As many as the run's settings say; None where they do not, or cannot be read."""
    try:
        written = written_settings(output).get("NGEN", "")
    except OutputError:
        return None
    return int(written) if written.isdecimal() else None


KIND: RunKind = EvolveKind()
