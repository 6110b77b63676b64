"""`orchestrator cancel`: stop a run, wherever it is driven, and keep its results."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from orchestrator import console
from orchestrator.commands import common
from orchestrator.console import command_line

DESCRIPTION = """\
Stop a run, from any terminal or machine that sees its output folder: its driver parks (exit 3), its
messages are removed from the queues, and workers end its tasks as soon as the answer or the call that they wait for
arrives.

Nothing that was finished is lost: `orchestrator retry RUN` goes on with it."""

EPILOG = """\
examples:
  orchestrator cancel outputs/gpu
  orchestrator runs --delete outputs/gpu      afterwards, to leave nothing of it on the farm

results: the folder keeps all that was finished; standard output says how many messages were dropped.
exit status: 0 stopped; 1 the folder holds no run, or neither it nor its farm is at work; 2 something still works on
it, or its farm cannot be reached."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("cancel", DESCRIPTION, EPILOG)
    common.add_run(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: stop(arguments.run))


def stop(folder: Path) -> int:
    from orchestrator.farm.connection import FarmUnavailable, StoreLost
    from orchestrator.farm.dispatcher import CANCELLED_REASON
    from orchestrator.runs.folder import OutputFolder, own_run_id
    from orchestrator.runs.lifecycle import cancel, reach_farm_of
    from orchestrator.runs.status import ParkedState, is_locked, read_parked_state, run_status, write_parked_state

    run_id, output, was_locked = own_run_id(folder), OutputFolder(folder), is_locked(folder)
    try:
        with reach_farm_of(folder) as farm:
            done = cancel(farm, folder, run_id, time.sleep)
    except FarmUnavailable as error:
        if was_locked or isinstance(error, StoreLost):  # it is up, and refuses
            raise
        return console.fail(console.WRONG, f"{folder} is not running, and its farm is down: {error}")
    if done.locked or done.active:
        more = [f"  {line}" for line in done.active]
        return console.fail(console.BROKEN, f"{folder} is cancelled, but not everything has stopped yet:", *more)
    if run_status(folder).state == "stopped" and read_parked_state(output) is None:
        write_parked_state(output, ParkedState(CANCELLED_REASON))
    messages = f"{done.dropped} message{'' if done.dropped == 1 else 's'}"
    print(f"cancelled {folder}: {messages} dropped, no process works on it any more")
    print(f"go on with: {command_line('retry', folder)}")
    return console.DONE
