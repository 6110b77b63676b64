"""`orchestrator status`: where one run stands."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from orchestrator.commands import common
from orchestrator.report.formatting import format_cost
from orchestrator.runs.status import standing_of

DESCRIPTION = "Say where one run stands: generation, fitness, tokens, cost, and what made it park, if it did."


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("status", DESCRIPTION)
    parser.add_argument("run", metavar="RUN", type=Path, help="the run's output folder")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: show(arguments))


def show(arguments: argparse.Namespace) -> int:
    standing = standing_of(arguments.run)
    if arguments.json:
        print(json.dumps(dataclasses.asdict(standing), indent=2))
        return common.DONE
    total = "?" if standing.generations is None else standing.generations
    print(f"{standing.run}: {standing.state}, {standing.generation} of {total} generations done")
    if standing.best_fitness is not None:
        print(f"  best ever  {standing.best_fitness:.4f} (generation 0 began with {standing.first_fitness:.4f})")
        print(f"  length     {standing.mean_tokens:.1f} tokens an answer in the best of the last population")
        print(f"  correct    {standing.correctness:.1%} of the training set")
    print(f"  used       {standing.target_tokens:,} generated tokens, {standing.calls:,} calls")
    print(f"  cost       {format_cost(standing.cost_usd, standing.budget_usd, standing.unconfirmed_usd)}")
    if standing.reason:
        print(f"  parked     {standing.reason}")
    for failure in standing.failures:
        print(f"  failed     {failure}")
    print(f"  files      {standing.folder}")
    if standing.state != "finished":
        print(f"  go on      orchestrator retry {standing.folder}")
    return common.DONE
