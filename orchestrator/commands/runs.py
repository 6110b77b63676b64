"""`orchestrator runs`: which runs there are and where they stand."""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path

from orchestrator.commands import common
from orchestrator.report.layout import format_table
from orchestrator.runs.status import Standing, find_runs, standing_of

DESCRIPTION = """\
List the runs whose output folders lie under a folder, and where each of them stands.

--delete takes one run off its farm: no key, no result and no message of it is left in Redis, but for results that
another run has used as well.  Its output folder stays; `orchestrator evolve` goes on from there, and does the
generation that was in flight anew."""

EPILOG = """\
examples:
  orchestrator runs
  orchestrator runs --json
  orchestrator runs --delete outputs/gpu"""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("runs", DESCRIPTION, EPILOG)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("outputs"), help="where to look (outputs)")
    parser.add_argument("--delete", metavar="RUN", type=Path, help="leave nothing of this run on its farm")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: delete(arguments.delete) if arguments.delete else show(arguments))


def delete(folder: Path) -> int:
    """Take a run off its farm; an embedded farm that is down is started for it, since its Valkey keeps its data."""
    from orchestrator.farm.connection import open_farm, settings_of
    from orchestrator.output import run_id_of
    from orchestrator.runs.lifecycle import cancel, delete_run
    from orchestrator.runs.status import is_locked

    run_id, settings = run_id_of(folder), settings_of(folder)
    if is_locked(folder):
        return common.fail(common.WRONG, f"{folder} is at work; stop it first: orchestrator cancel {folder}")
    with open_farm(settings, lambda line: None) as farm:
        if busy := cancel(farm, folder, run_id, time.sleep).at_work:
            return common.fail(common.BROKEN, f"workers are still at {folder}:", *(f"  {said}" for said in busy))
        keys = delete_run(farm.app, farm.broker, farm.store, run_id)
    print(f"deleted {folder} from its farm: {keys} keys; the folder stays")
    return common.DONE


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
    return "\n".join(format_table(rows))
