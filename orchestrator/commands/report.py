"""`orchestrator report`, `compare`, `answers` and `show`: what runs have found."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator import console
from orchestrator.commands import options

if TYPE_CHECKING:
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
@click.option("--csv", "as_csv", is_flag=True, help="print CSV, one line for each run")
def compare(runs: Sequence[Path], as_json: bool, is_all: bool, as_csv: bool) -> int:
    """Print the most important figures of a run, or of several side by side: tokens and right answers before and after,
    against which rival, on which questions, and what it took.

    Where two runs have answered the same questions, their winners are also compared with one another.

    examples:
      orchestrator compare outputs/evolve
      orchestrator compare outputs/evolve --all
      orchestrator compare outputs/evolve outputs/embedded --csv > runs.csv

    exit status: 0 printed; 1 a folder holds no run, or a file of it is damaged.
    """
    from orchestrator.digest import digest_of
    from orchestrator.results import RunResults

    if as_json + is_all + as_csv > 1:
        raise click.UsageError("--json, --all and --csv exclude each other")
    found = [RunResults.open(folder) for folder in runs]
    if is_all:
        options.print_found(False, [], _all_systems(found))
        return console.DONE
    digests = [digest_of(run) for run in found]
    if as_csv:
        rows = [dict(_columns(digest)) for digest in digests]
        writer = csv.DictWriter(sys.stdout, list({name: None for row in rows for name in row}))
        writer.writeheader()
        writer.writerows(rows)
        return console.DONE
    options.print_found(as_json, digests, [] if as_json else [*_table(digests), *_direct_comparison(found)])
    return console.DONE


def _columns(digest: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields as columns of plain values: an interval is two, `NAME_low` and `NAME_high`; evaluations are three."""
    for name, value in digest.items():
        if isinstance(value, tuple):
            yield from zip((f"{name}_low", f"{name}_high"), value, strict=True)
        elif isinstance(value, dict):
            yield from ((f"{name}_{part}", count) for part, count in value.items())
        else:
            yield name, value


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
    from orchestrator.report.text import systems_table

    for one in runs:
        yield f"{one.run}: {'no systems yet' if one.report is None else one.report.conclusion.sentence}"
        yield from () if one.report is None else systems_table(one.report, most=len(one.report.systems))


def _direct_comparison(runs: Sequence[RunResults]) -> list[str]:
    """The second run's winner against the first one's, on the same questions; nothing where there are none.

    The test set is used where both have asked it, else the validation set.
    """
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
            yield f"-- {side}: {one.tokens} tokens, {_state(one)}"
            yield one.text or "(no text)"
            if one.reasoning:
                yield f"judge: {one.reasoning}"
    yield ""


def _state(one: JudgedAnswer) -> str:
    return ("right" if one.is_right else "wrong") + ("" if one.is_whole else ", cut")


def _changes(before: JudgedAnswer, after: JudgedAnswer) -> list[str]:
    """What --only chooses by."""
    side = {(False, True): ["gained"], (True, False): ["lost"]}.get((before.is_correct, after.is_correct), [])
    return [*side, *(["changed"] if before.text != after.text else [])]


@options.command()
@options.run_argument
@click.argument("node", metavar="NODE")
@options.json_option
def show(run: Path, node: str, as_json: bool) -> int:
    """Show one individual of an evolution, also one that was never the best: its deltas by cluster, its scratchpad, its
    figures, the individuals that it descends from, and the reflector's files about it.

    A NODE is a name of the evolution's tree, such as g0_pop0, g2_child3_pre or g2_child3_mut.

    examples:
      orchestrator show outputs/evolve g1_child0_mut
      orchestrator show outputs/evolve g1_child0_mut --json > individual.json

    `orchestrator evolve --fork RUN@NODE` begins a run with the individual.
    exit status: 0 printed; 1 the folder holds no run, or the run has no such individual.
    """
    from orchestrator.results import RunResults

    found = _individual(RunResults.open(run), node)
    options.print_found(as_json, found, _individual_lines(found))
    return console.DONE


INDIVIDUAL = (
    "generation", "stage", "arm", "fitness", "mean_tokens", "correctness", "target", "skip_reason", "merge_fallback",
)  # fmt: skip


def _individual(results: RunResults, name: str) -> dict[str, Any]:
    """The individual with its clusters, its ancestors, its descendants, and the files about it."""
    one = results.individual(name)
    arm = next((arm.clusters for arm in results.arms if arm.arm == one.arm), results.clusters)
    known = {cluster.id: dataclasses.asdict(cluster) for cluster in arm}
    return {
        "name": name,
        **{key: getattr(one, key) for key in INDIVIDUAL},
        "is_elite": one.is_elite,
        "parents": [edge["from"] for edge in results.descent if edge["to"] == name],
        "children": [edge["to"] for edge in results.descent if edge["from"] == name],
        "files": [f"reflector_prompts/{call.file}" for call in results.reflector_calls if call.is_about(name)],
        "scratchpad": one.scratchpad,
        "clusters": [{"id": id, "delta": delta, **known.get(id, {})} for id, delta in one.deltas.items()],
    }


def _individual_lines(found: Mapping[str, Any]) -> Iterator[str]:
    from orchestrator.report.format import format_table

    facts = {name: value for name, value in found.items() if name not in ("scratchpad", "clusters")}
    yield from format_table(
        [(name, _text(value)) for name, value in facts.items() if value not in (None, "", False, [])]
    )
    yield from ("", "deltas, added to the logits of each cluster's tokens:")
    rows = [(one["id"], f"{one['delta']:+.3f}", one.get("description", "")) for one in found["clusters"]]
    yield from format_table(rows) if rows else ("not known: individuals.jsonl is missing",)
    if found["scratchpad"]:
        yield from ("", "scratchpad:", found["scratchpad"])


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
