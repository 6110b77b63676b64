"""`orchestrator pause`: have a queue or a worker take no more tasks."""

from __future__ import annotations

import argparse

from orchestrator.commands import common

DESCRIPTION = """\
Have all workers of a queue, or one worker, take no more tasks.  What they have in hand they finish; what waits in the
queue stays there.  It is remembered in the store: a worker that starts later keeps to it too, until
`orchestrator resume`."""

EPILOG = """\
examples:
  orchestrator pause openai            no more calls, while the endpoint's limits are sorted out
  orchestrator pause gpu2              one worker, as `orchestrator workers` calls it (or in full: gpu2@host)
  orchestrator resume openai"""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("pause", DESCRIPTION, EPILOG)
    parser.add_argument("name", metavar="QUEUE|WORKER", help="gpu, openai, cpu, or the name of a worker")
    common.add_farm(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: tell(arguments, "pause"))


def tell(arguments: argparse.Namespace, what: str) -> int:
    """Pause or resume, and say what each worker concerned says to it."""
    from orchestrator.farm import workers
    from orchestrator.farm.connection import named_address, reach

    with reach(named_address(arguments.config)) as farm:
        try:
            states = getattr(workers, what)(farm, arguments.name)
        except workers.NoSuchWorker as error:
            return common.fail(common.WRONG, str(error))
    for worker, state in states.items():
        print(f"{worker}: {state}")
    if not states:
        print(f"no worker that this concerns is there now; the next one will be {what}d")
    return common.DONE
