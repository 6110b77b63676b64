"""`orchestrator pause`: have a queue or a worker take no more tasks."""

from __future__ import annotations

import argparse

from orchestrator import exit_status
from orchestrator.commands import common
from orchestrator.completing import complete_queue, with_completer

DESCRIPTION = """\
Pause all workers of a queue, or one worker: they take no more tasks.  They finish the tasks that they have; the other
tasks stay in the queue.  The pause is recorded in the store, so that it also holds for workers that start later, until
`orchestrator resume`."""

EPILOG = f"""\
examples:
  orchestrator pause openai            no more calls, for example to change the limits of the endpoint
  orchestrator pause gpu2              one worker, by the name that `orchestrator workers` prints (or gpu2@host)
  orchestrator resume openai

results: the state of each worker concerned, on standard output.
{common.OF_A_FARM}"""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("pause", DESCRIPTION, EPILOG)
    name = parser.add_argument("name", metavar="QUEUE|WORKER", help="gpu, openai, cpu, or the name of a worker")
    with_completer(name, complete_queue)
    common.add_farm(parser)
    common.add_json(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: pause_or_resume(arguments, "pause"))


def pause_or_resume(arguments: argparse.Namespace, action: str) -> int:
    """Call `pause` or `resume` of the farm's workers, and print the state of each worker concerned."""
    from orchestrator.farm import workers
    from orchestrator.farm.connection import named_address, reach

    with reach(named_address(arguments.config)) as farm:
        try:
            states = getattr(workers, action)(farm, arguments.name)
        except workers.NoSuchWorker as error:
            return exit_status.fail(exit_status.WRONG, str(error))
    lines = [f"{worker}: {state}" for worker, state in states.items()]
    nobody = f"no such worker is running; the next one that starts will be {action}d"
    common.print_found(arguments, {"name": arguments.name, "action": action, "workers": states}, lines or [nobody])
    return exit_status.DONE
