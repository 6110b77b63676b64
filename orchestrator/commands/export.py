"""`orchestrator export`: a system that a run has found, as a file for an inference engine."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import console
from orchestrator.commands import common
from tasks.common.text import escape_control

if TYPE_CHECKING:
    from orchestrator.evolve.systems import SystemKind

RUN_FILES = ("systems.json", "individuals.jsonl", "processor_best.py")
NOT_SHOWN = "warning: it is not shown that {name} loses less than the margin of correct answers"
ENGINES = ("sglang", "sglang-server", "vllm", "transformers", "llama-cpp", "logit-bias")
DESCRIPTION = """\
Write what a run has found as a file for an inference engine, and print the command that uses it.

  sglang         a custom logit processor (as processor_best.py), named by each request
  sglang-server  a system and a plugin for all chat completions of a server; also a system prompt alone
  vllm           a logits processor for model runner V1 and V2
  transformers   a LogitsProcessor for generate()
  llama-cpp      a processor for llama-cpp-python, and biases for llama-server and llama-cli
  logit-bias     JSON with the biases of all tokens, for servers that limit neither their number nor their size

Each processor explains itself: its head, or `python FILE`, says how it is used (docs/export.md)."""

EPILOG = """\
examples:
  orchestrator export outputs/evolve --to vllm
  orchestrator export outputs/evolve --to sglang --system "two sentences: log-odds x1"
  orchestrator export outputs/evolve --to transformers --node g2_child3_mut --output steer.py

results: the file, and the command that uses it on standard output.
exit status: 0 written; 1 the arguments are wrong, or the folder has no such result; 2 the file cannot be written."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("export", DESCRIPTION, EPILOG)
    common.add_run(parser)
    parser.add_argument("--to", required=True, choices=ENGINES, metavar="ENGINE", help="one of the engines above")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--system", default="", metavar="NAME", help="a system of the run, as front.json names it (default: the winner)"
    )
    which.add_argument("--node", default="", help="an individual of the search, as individuals.jsonl names it")
    parser.add_argument("--output", type=Path, metavar="FILE", help="the file (default: in the run's folder exports)")
    return parser


def engines_for(kind: SystemKind, deltas: Sequence[float]) -> tuple[str, ...]:
    """The engines that such a system can be exported to; without deltas there is nothing for a processor to add."""
    return ENGINES if deltas else ("sglang-server",) if kind == "prompt" else ()


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: _export(arguments))


def _export(arguments: argparse.Namespace) -> int:
    from orchestrator.export.steering import read_steering
    from orchestrator.export.targets import TARGETS, default_file
    from orchestrator.runs.folder import OutputError, check_inputs, write_output

    target = TARGETS[arguments.to]
    steering = read_steering(arguments.run, arguments.system, arguments.node)
    system = steering.system
    if arguments.to not in (engines := engines_for(system.kind, system.deltas)):
        instead = f"--to {' or '.join(engines)} takes it" if engines else "--system names another one (front.json)"
        if system.max_tokens:
            instead = f'set "max_tokens": {system.max_tokens} in each request'
        raise OutputError(f"{arguments.run}: {system.name!a} has nothing that {arguments.to} could add: {instead}")
    file = arguments.output or default_file(arguments.run, arguments.to, arguments.system or arguments.node)
    target.check_name(file)
    check_inputs("--output", file, {name: arguments.run / name for name in RUN_FILES})
    text = target.render(steering)
    file.parent.mkdir(parents=True, exist_ok=True)
    for name, content in target.beside(steering).items():
        (file.parent / name).parent.mkdir(parents=True, exist_ok=True)
        write_output(file.parent / name, content)
    write_output(file, text)
    if not steering.is_shown:
        print(NOT_SHOWN.format(name=system.name), file=sys.stderr)
    print(f"{file}\n\n  {target.command_for(file)}")
    if system.system_prompt and arguments.to != "sglang-server":
        print(f"\nsystem prompt, to be sent with each request: {escape_control(system.system_prompt)}")
    if file.suffix == ".py":
        print(f"\nmore: python {shlex.quote(str(file))}")
    return console.DONE
