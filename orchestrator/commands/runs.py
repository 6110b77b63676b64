"""`orchestrator runs`: which runs there are and where they stand."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from orchestrator.commands import common
from orchestrator.report.columns import columns
from orchestrator.runs.standing import Standing, find_runs, standing_of

DESCRIPTION = "List the runs whose output folders lie under a folder, and where each of them stands."


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("runs", DESCRIPTION)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("outputs"), help="where to look (outputs)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.guarded(lambda: show(arguments))


def show(arguments: argparse.Namespace) -> int:
    found = [standing_of(folder) for folder in find_runs(arguments.folder)]
    if arguments.json:
        print(json.dumps([dataclasses.asdict(standing) for standing in found], indent=2))
    elif not found:
        print(f"no runs under {arguments.folder}; `make evolve` makes one")
    else:
        print(table(found))
    return common.DONE


def table(found: list[Standing]) -> str:
    rows = [("RUN", "STATE", "GENERATION", "BEST EVER", "TOKENS", "COST", "FOLDER")]
    rows += [
        (
            s.run,
            s.state,
            f"{s.generation} of {s.generations if s.generations is not None else '?'}",
            "-" if s.best_fitness is None else f"{s.best_fitness:.4f}",
            f"{s.target_tokens:,}",
            f"${s.cost_usd:.2f}",
            s.folder,
        )
        for s in found
    ]
    return "\n".join(columns(rows))
