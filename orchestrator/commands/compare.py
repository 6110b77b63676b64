"""`orchestrator compare`: the most important figures of runs as text, side by side."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator import console
from orchestrator.commands import common

if TYPE_CHECKING:
    from orchestrator.results import RunResults

IN_WORDS = ("run", "verdict", "reason", "rival_prompt")  # not in the table

DESCRIPTION = """\
Print the most important figures of a run, or of several side by side: tokens and right answers before and after,
against which rival, on which questions, and what it took.

Where two runs have answered the same questions, their winners are also compared with one another."""

EPILOG = f"""\
examples:
  orchestrator compare outputs/evolve
  orchestrator compare outputs/evolve --all
  orchestrator compare outputs/evolve outputs/embedded --csv > runs.csv
{common.LISTED}
exit status: 0 printed; 1 a folder holds no run, or a file of it is damaged."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("compare", DESCRIPTION, EPILOG)
    common.add_run_list(parser)
    form = parser.add_mutually_exclusive_group()
    common.add_json(form)
    form.add_argument("--all", action="store_true", help="print every measured system of each run")
    form.add_argument("--csv", action="store_true", help="print CSV, one line for each run")
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: _show(arguments))


def _show(arguments: argparse.Namespace) -> int:
    from orchestrator.digest import digest_of
    from orchestrator.results import RunResults

    runs = [RunResults.open(folder) for folder in arguments.runs]
    if arguments.all:
        common.print_found(arguments, [], _all_systems(runs))
        return console.DONE
    digests = [digest_of(run) for run in runs]
    if arguments.csv:
        rows = [dict(_columns(digest)) for digest in digests]
        writer = csv.DictWriter(sys.stdout, list({name: None for row in rows for name in row}))
        writer.writeheader()
        writer.writerows(rows)
        return console.DONE
    common.print_found(arguments, digests, [] if arguments.json else [*_table(digests), *_direct_comparison(runs)])
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
    from orchestrator.report.layout import format_table

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
    from orchestrator.report.paired import pair, paired_sentence

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
