"""`orchestrator answers`: the model's answers without steering and with the winner."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from orchestrator import console
from orchestrator.commands import common

if TYPE_CHECKING:
    from orchestrator.report.statistics import Comparison, JudgedAnswer

DESCRIPTION = "Show the answers of a finished run: before (the plain model) and after (the winner)."

EPILOG = f"""\
examples:
  orchestrator answers outputs/evolve
  orchestrator answers outputs/evolve --only lost       what steering has made wrong
  orchestrator answers outputs/evolve --json > answers.json
{common.LISTED}
exit status: 0 printed; 1 the folder holds no finished run."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("answers", DESCRIPTION, EPILOG)
    common.add_run(parser)
    parser.add_argument(
        "--only", choices=("all", "changed", "lost", "gained"), default="all",
        help="all; those whose text changed; those that became wrong; those that became correct",
    )  # fmt: skip
    common.add_json(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: _show(arguments))


def _show(arguments: argparse.Namespace) -> int:
    from orchestrator.results import RunResults
    from orchestrator.runs.folder import OutputError

    comparisons = RunResults.open(arguments.run).comparisons
    if not comparisons:
        raise OutputError(f"{arguments.run} has no answers to compare; an evolution writes them when it is finished")
    lines = (line for one in comparisons for line in _lines(one, arguments.only))
    common.print_found(arguments, [dataclasses.asdict(comparison) for comparison in comparisons], lines)
    return console.DONE


def _lines(comparison: Comparison, only: str) -> Iterator[str]:
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
