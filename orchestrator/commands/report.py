"""`orchestrator report`, `compare` and `best`: what runs have found."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator import console
from orchestrator.commands import options

if TYPE_CHECKING:
    from orchestrator.report.statistics import Comparison
    from orchestrator.results import RunResults
    from tasks.records import JudgedAnswer

IN_WORDS = ("run", "verdict", "reason", "rival_prompt")  # not in the table of `compare`


@options.command()
@options.runs_argument
@click.option("--output", metavar="FILE", type=options.path_option,
              help="the file to write (default: report.html in the first RUN)")  # fmt: skip
def report(runs: Sequence[Path], output: Path | None) -> int:
    """Write one HTML file that shows a run of any kind, or several side by side: what it has found, what it cost, its
    settings and versions.

    The file has everything in it and loads nothing, so it can be sent.  It contains the questions and answers of the
    run.  A run that is still at work is shown as well.

    examples:
      orchestrator report outputs/evolve
      orchestrator report outputs/evolve outputs/embedded --output both.html

    exit status: 0 written; 1 a folder holds no run, or a file of it is damaged; 2 the file cannot be written.
    """
    from orchestrator.report.page import render_page
    from orchestrator.results import RunResults
    from orchestrator.runs.folder import write_output

    found = [RunResults.open(folder) for folder in runs]
    path = output or runs[0] / "report.html"
    page = render_page(found, datetime.datetime.now().astimezone()).encode()
    write_output(path, page)
    print(f"{path} ({len(page) / 1e6:.1f} MB)")
    return console.DONE


@options.command()
@options.runs_argument
@options.json_option
@click.option("--all", "is_all", is_flag=True, help="print every measured system of each run")
@click.option(
    "--answers", type=click.Choice(("all", "changed", "lost", "gained")), help="print the answers of one finished run, "
    "before (the plain model) and after (the winner): all, or those that changed, became wrong (lost) or correct "
    "(gained)",
)  # fmt: skip
def compare(runs: Sequence[Path], as_json: bool, is_all: bool, answers: str | None) -> int:
    """Print the most important figures of a run, or of several side by side: tokens and right answers before and after,
    the strongest rival, the questions, and what the run cost.

    If two runs have answered the same questions, their winners are also compared with one another.  `orchestrator
    report RUN RUN` writes the same as a page.

    examples:
      orchestrator compare outputs/evolve
      orchestrator compare outputs/evolve --all
      orchestrator compare outputs/evolve --answers lost      what steering has made wrong
      orchestrator compare outputs/evolve outputs/embedded --json > runs.json

    exit status: 0 printed; 1 a folder holds no run, or a file of it is damaged.
    """
    from orchestrator.digest import digest_of, direct_comparison
    from orchestrator.results import RunResults
    from orchestrator.runs.folder import OutputError

    if as_json and is_all:
        raise click.UsageError("--json and --all exclude each other")
    found = [RunResults.open(folder) for folder in runs]
    if answers is not None:
        if len(found) > 1 or is_all:
            raise click.UsageError("--answers is for one run, without --all")
        if not (comparisons := found[0].comparisons):
            raise OutputError(f"{runs[0]} has no answers to compare; an evolution writes them when it is finished")
        shown = (line for one in comparisons for line in _answer_lines(one, answers))
        options.print_found(as_json, [dataclasses.asdict(one) for one in comparisons], shown)
        return console.DONE
    digests = [] if is_all else [digest_of(run) for run in found]
    lines = _all_systems(found) if is_all else [*_table(digests), *direct_comparison(found)]
    options.print_found(as_json, digests, lines)
    return console.DONE


def _table(digests: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The conclusions in words, then a row for each figure that any run has, with a column for each run."""
    from orchestrator.report.format import format_table

    for digest in digests:
        yield f"{digest['run']}: {digest['verdict'] or digest['state'] + ', ' + digest['progress'] + ' done'}"
    yield ""
    names = [name for name in digests[0] if name not in IN_WORDS and any(one[name] is not None for one in digests)]
    yield from format_table([(name.replace("_", " "), *(_cell(one[name]) for one in digests)) for name in names])


def _cell(value: Any) -> str:
    if isinstance(value, tuple):
        return " to ".join(map(_cell, value))
    if isinstance(value, dict):
        return ", ".join(f"{count:,} {name}" for name, count in value.items())
    if isinstance(value, int):
        return f"{value:,}"
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _all_systems(runs: Sequence[RunResults]) -> Iterator[str]:
    from orchestrator.report.model import systems_table

    for one in runs:
        yield f"{one.run}: {'no systems yet' if one.report is None else one.report.conclusion.sentence}"
        yield from () if one.report is None else systems_table(one.report, most=len(one.report.systems))


@options.command()
@options.runs_argument
@options.json_option
def best(runs: Sequence[Path], as_json: bool) -> int:
    """Name the best system over several finished evolutions on the same questions.

    It is one of the systems that passed in their runs: the one with the fewest tokens on the validation questions, or
    with CONFIG_GOAL="most_right" the one with the most correct answers.

    The guarantee of a run holds only for the choice in that run.  The best of several runs is also the luckiest, so its
    figures are too good, and the 95 % do not hold for it.  Ask it fresh questions.

    examples:
      orchestrator best outputs/seed1 outputs/seed2 outputs/seed3
      orchestrator best outputs/seed* --json

    exit status: 0 printed, also where no system has passed; 1 a folder holds no finished evolution, a file of it is
    damaged, or the runs have other questions, another model, judge, goal or margin.
    """
    from orchestrator.report.format import format_table
    from orchestrator.results import RunResults
    from orchestrator.runs.folder import OutputError

    found = [RunResults.open(folder) for folder in dict.fromkeys(runs)]
    if len(found) < 2:
        raise click.UsageError("name at least two runs")
    passed: list[dict[str, Any]] = []
    for run in found:
        report = None if run.kind != "evolve" else run.report
        if report is None:
            raise OutputError(f"{run.folder} holds no finished evolution")
        if other := [name for name, value in _compared(run).items() if value != _compared(found[0])[name]]:
            raise OutputError(f"{run.folder} has another {' and another '.join(other)} than {found[0].folder}")
        for one in report.systems:
            if one.passed and one.validation is not None:
                figures = {name: getattr(one.validation, name) for name in MEASURED}
                passed.append({"run": run.run, "folder": str(run.folder), "system": one.name, **figures})
    if found[0].values["goal"] == "most_right":
        passed.sort(key=lambda one: (-one["correct"], one["mean_tokens"]))
    else:
        passed.sort(key=lambda one: (one["mean_tokens"], -one["correct"]))
    lines = [f"No system of these {len(found)} runs has passed: the plain model stays."]
    if passed:
        first, rows = passed[0], [("RUN", "SYSTEM", *(name.replace("_", " ").upper() for name in MEASURED))]
        rows += [(one["run"], one["system"], *(_cell(one[name]) for name in MEASURED)) for one in passed]
        export = console.command_line("export", first["folder"], "--system", first["system"], "--to", "ENGINE")
        lines = [
            f'The best of {len(passed)} that passed in {len(found)} runs: "{first["system"]}" of {first["run"]}.',
            "It was chosen among several runs on the same questions, so that no run's guarantee holds for it any more.",
            "Ask it fresh questions before you deploy it: validation and test questions that none of the runs has had.",
            f"write it: {export}",
            "",
            *format_table(rows),
        ]
    options.print_found(as_json, {"best": passed[0] if passed else None, "guaranteed": False, "passed": passed}, lines)
    return console.DONE


COMPARED = ("target_model", "goal", "margin", "whole", "judge", "judge_model", "judge_tolerance", "judge_forgiving")
MEASURED = ("n", "mean_tokens", "right", "whole", "correct")


def _compared(run: RunResults) -> dict[str, object]:
    """What must be the same in runs whose systems are compared, by its name."""
    questions = run.question_hashes.get("validation") or {}
    return {"set of validation questions": questions} | {f"CONFIG_{n.upper()}": run.values[n] for n in COMPARED}


def _answer_lines(comparison: Comparison, only: str) -> Iterator[str]:
    pairs = list(comparison.pairs())
    shown = [pair for pair in pairs if only == "all" or only in _changes(*pair)]
    system = f"after: {comparison.system}; " if comparison.system else ""
    yield f"{comparison.name}: {system}{len(pairs)} questions, {len(shown)} shown ({only})"
    for before, after in shown:
        yield ""
        yield f"== {before.example}: {', '.join(_changes(before, after)) or 'the same'}"
        yield f"question  {before.question}"
        yield f"gold      {before.gold}"
        for side, one in (("before", before), ("after", after)):
            yield f"-- {side}: {one.tokens} tokens, {one.state}"
            yield one.text or "(no text)"
            if one.reasoning:
                yield f"judge: {one.reasoning}"
    yield ""


def _changes(before: JudgedAnswer, after: JudgedAnswer) -> list[str]:
    side = {(False, True): ["gained"], (True, False): ["lost"]}.get((before.is_correct, after.is_correct), [])
    return [*side, *(["changed"] if before.text != after.text else [])]
