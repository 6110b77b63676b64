"""`orchestrator failed`: which tasks of a run, or of all runs, have failed."""

from __future__ import annotations

import argparse
import dataclasses
import json
from datetime import datetime
from pathlib import Path

from orchestrator.commands import common

DESCRIPTION = """\
List the tasks that have failed for good and wait to be retried: which individual (its name in the tree and in
history.jsonl), at what stage, with what error, after how many tries, and the file of the last prompt where it was
a call.

While the farm is up the list is what the farm knows now, also in the middle of a run; otherwise it is what the run
wrote into its folder when it parked."""

WIDEST = 300  # of an error, in columns

EPILOG = """\
examples:
  orchestrator failed                          every run under outputs/
  orchestrator failed outputs/gpu              one run
  orchestrator failed outputs/gpu --json       for a program

Mend the cause, then `orchestrator retry RUN`, or `orchestrator retry RUN TASK ...` for some of them."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("failed", DESCRIPTION, EPILOG)
    parser.add_argument("run", metavar="RUN", type=Path, nargs="?", help="the run's output folder (all under outputs/)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: show(arguments))


def show(arguments: argparse.Namespace) -> int:
    from orchestrator.report.layout import clip
    from orchestrator.runs.status import failed_of, find_runs
    from tasks.escape import escape_control

    folders = [arguments.run] if arguments.run else find_runs(Path("outputs"))
    found = {folder: failed_of(folder) for folder in folders}
    if arguments.json:
        listed = [{"run": str(f), **dataclasses.asdict(one)} for f, failed in found.items() for one in failed]
        print(json.dumps(listed, indent=2, ensure_ascii=False))
        return common.DONE
    if not any(found.values()):
        print(f"nothing has failed in {arguments.run or 'the runs under outputs'}")
    for folder, failed in found.items():
        for one in failed:
            tries = f"tried {one.tries} time{'' if one.tries == 1 else 's'}"
            at = f"{datetime.fromtimestamp(one.at):%Y-%m-%d %H:%M:%S}"
            print(f"{one.node}: {one.stage} failed, {tries}, last at {at}, task {one.task}")
            print(f"  {clip(escape_control(one.error), WIDEST)}")
            if one.prompt:
                print(f"  prompt   {folder / 'reflector_prompts' / one.prompt}")
        if failed:
            print(f"  retry    orchestrator retry {folder}")
    return common.DONE
