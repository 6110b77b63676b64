"""`orchestrator report`, `compare`, `answers` and `export`: what runs have found, and how to use it."""

from __future__ import annotations

import dataclasses
import datetime
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator import console
from orchestrator.commands import options

if TYPE_CHECKING:
    from orchestrator.evolve.systems import SystemKind
    from orchestrator.report.statistics import Comparison, JudgedAnswer
    from orchestrator.results import RunResults

IN_WORDS = ("run", "verdict", "reason", "rival_prompt")  # not in the table of `compare`


@options.command()
@options.runs_argument
@click.option("--output", metavar="FILE", type=options.path_option,
              help="the file to write (default: report.html in the first RUN)")  # fmt: skip
def report(runs: Sequence[Path], output: Path | None) -> int:
    """Write one HTML file that shows a run of any kind, or several side by side: what it has found, what it cost, its
    settings and versions.

    The file has everything in it and loads nothing, so it can be sent.  It holds the questions and answers of the run.
    A run at work is shown as far as it is.

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
def compare(runs: Sequence[Path], as_json: bool, is_all: bool) -> int:
    """Print the most important figures of a run, or of several side by side: tokens and right answers before and after,
    against which rival, on which questions, and what it took.

    Where two runs have answered the same questions, their winners are also compared with one another.

    examples:
      orchestrator compare outputs/evolve
      orchestrator compare outputs/evolve --all
      orchestrator compare outputs/evolve outputs/embedded --json > runs.json

    exit status: 0 printed; 1 a folder holds no run, or a file of it is damaged.
    """
    from orchestrator.digest import digest_of
    from orchestrator.results import RunResults

    if as_json and is_all:
        raise click.UsageError("--json and --all exclude each other")
    found = [RunResults.open(folder) for folder in runs]
    digests = [] if is_all else [digest_of(run) for run in found]
    lines = _all_systems(found) if is_all else [*_table(digests), *_direct_comparison(found)]
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


def _direct_comparison(runs: Sequence[RunResults]) -> list[str]:
    """The second run's winner against the first one's, on the test set where both have asked it, else on validation."""
    from orchestrator.report.statistics import pair, paired_sentence

    reports = [one.report for one in runs]
    if len(runs) != 2 or (report := reports[1]) is None or reports[0] is None:
        return []
    first, second = runs
    winners = [one.book.system(one.book.winner) for one in runs]
    for which in ("test", "validation"):
        before, after = (getattr(winner, which) for winner in winners)
        hashes = [one.question_hashes.get(which) for one in runs]
        if before is None or after is None or hashes[0] is None or hashes[0] != hashes[1]:
            continue
        found = pair(before, after, report.margin, seed=0)
        questions = f"The winner of {second.run}, on the same {found.change.count} {which} questions,"
        return ["", f"{questions} {paired_sentence(found, f'the winner of {first.run}')}"]
    return []


@options.command()
@options.run_argument
@click.option(
    "--only", type=click.Choice(("all", "changed", "lost", "gained")), default="all",
    help="all; those whose text changed; those that became wrong; those that became correct",
)  # fmt: skip
@options.json_option
def answers(run: Path, only: str, as_json: bool) -> int:
    """Show the answers of a finished run: before (the plain model) and after (the winner).

    examples:
      orchestrator answers outputs/evolve
      orchestrator answers outputs/evolve --only lost       what steering has made wrong
      orchestrator answers outputs/evolve --json > answers.json

    exit status: 0 printed; 1 the folder holds no finished run.
    """
    from orchestrator.results import RunResults
    from orchestrator.runs.folder import OutputError

    comparisons = RunResults.open(run).comparisons
    if not comparisons:
        raise OutputError(f"{run} has no answers to compare; an evolution writes them when it is finished")
    lines = (line for one in comparisons for line in _answer_lines(one, only))
    options.print_found(as_json, [dataclasses.asdict(comparison) for comparison in comparisons], lines)
    return console.DONE


def _answer_lines(comparison: Comparison, only: str) -> Iterator[str]:
    pairs = list(comparison.pairs())
    shown = [pair for pair in pairs if only == "all" or only in _changes(*pair)]
    yield f"{comparison.name}: {len(pairs)} questions, {len(shown)} shown ({only})"
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


ENGINES = ("sglang", "sglang-server", "vllm", "transformers", "llama-cpp")


def engines_for(kind: SystemKind, deltas: Sequence[float]) -> tuple[str, ...]:
    """The engines that such a system can be exported to; without deltas there is nothing for a processor to add."""
    return ENGINES if deltas else ("sglang-server",) if kind == "prompt" else ()


@options.command()
@options.run_argument
@click.option("--to", required=True, type=click.Choice(ENGINES), metavar="ENGINE", help="one of the engines above")
@click.option("--system", default="", metavar="NAME",
              help="a system of the run, as front.json names it (default: the winner)")  # fmt: skip
@click.option("--node", default="", help="an individual of the search, as individuals.jsonl names it")
@click.option(
    "--output", type=options.path_option, metavar="FILE", help="the file (default: in the run's folder exports)"
)
def export(run: Path, to: str, system: str, node: str, output: Path | None) -> int:
    """Write what a run has found as a file for an inference engine, and print the command that uses it
    and one complete request.

      sglang         a custom logit processor (as processor_best.py), named by each request
      sglang-server  a system and a plugin for all chat completions of a server; also a system prompt alone
      vllm           a logits processor for model runner V1 and V2
      transformers   a LogitsProcessor for generate()
      llama-cpp      a processor for llama-cpp-python, and biases for llama-server

    Each processor explains itself: its head, or `python FILE`, says how it is used (docs/export.md).

    examples:
      orchestrator export outputs/evolve --to vllm
      orchestrator export outputs/evolve --to sglang --system "two sentences: log-odds x1"
      orchestrator export outputs/evolve --to transformers --node g2_child3_mut --output steer.py

    exit status: 0 written; 1 the arguments are wrong, or the folder has no such result; 2 the file cannot be written.
    """
    from orchestrator.export.targets import TARGETS, default_file, read_steering
    from orchestrator.runs.folder import OutputError, check_inputs, write_output

    if system and node:
        raise click.UsageError("--system and --node exclude each other")
    target = TARGETS[to]
    steering = read_steering(run, system, node)
    chosen = steering.system
    if to not in (engines := engines_for(chosen.kind, chosen.deltas)):
        instead = f"--to {' or '.join(engines)} takes it" if engines else "--system names another one (front.json)"
        if chosen.max_tokens:
            instead = f'set "max_tokens": {chosen.max_tokens} in each request'
        raise OutputError(f"{run}: {chosen.name!a} has nothing that {to} could add: {instead}")
    file = output or default_file(run, to, system or node)
    target.check_name(file)
    read = ("systems.json", "individuals.jsonl", "processor_best.py")
    check_inputs("--output", file, {name: run / name for name in read})
    text = target.render(steering, file.stem)
    file.parent.mkdir(parents=True, exist_ok=True)
    for name, content in target.beside(steering).items():
        (file.parent / name).parent.mkdir(parents=True, exist_ok=True)
        write_output(file.parent / name, content)
    write_output(file, text)
    if not steering.is_shown:
        shown = f"it is not shown that {chosen.name} loses less than the margin of correct answers"
        print(f"warning: {shown}", file=sys.stderr)
    print(f"{file}\n\n  {target.command_for(file)}\n\n{steering.said}\n\n{target.request_text(steering, file.stem)}")
    if file.suffix == ".py":
        print(f"\nmore: python {shlex.quote(str(file))}")
    return console.DONE
