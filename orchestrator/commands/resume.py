"""`orchestrator resume`: have a paused queue or worker take tasks again."""

from __future__ import annotations

import argparse

from orchestrator.commands import common
from orchestrator.commands.pause import pause_or_resume
from orchestrator.completing import complete_queue, with_completer

DESCRIPTION = "Have a queue or a worker that was paused by `orchestrator pause` take tasks again."

EPILOG = f"""\
examples:
  orchestrator workers                 its last lines list what is paused
  orchestrator resume openai
  orchestrator resume gpu2

results: the state of each worker concerned, on standard output.
{common.OF_A_FARM}"""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("resume", DESCRIPTION, EPILOG)
    name = parser.add_argument("name", metavar="QUEUE|WORKER", help="the name that was paused")
    with_completer(name, complete_queue)
    common.add_farm(parser)
    common.add_json(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: pause_or_resume(arguments, "resume"))
