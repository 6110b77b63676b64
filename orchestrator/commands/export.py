"""`orchestrator export`: the steering that a run has found, as a file for an inference engine."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from orchestrator import exit_status
from orchestrator.commands import common

ENGINES = ("sglang", "sglang-server", "vllm", "transformers", "llama-cpp", "logit-bias")
DESCRIPTION = """\
Write what a run has found as a file for an inference engine, and print the command that uses it.

  sglang         a custom logit processor (as processor_best.py), named by each request
  sglang-server  a system and a plugin that steers all chat completions of a server; clients change nothing
  vllm           a logits processor for model runner V1 and V2
  transformers   a LogitsProcessor for generate()
  llama-cpp      a processor for llama-cpp-python, and biases for llama-server and llama-cli
  logit-bias     JSON with the biases of all tokens, for servers that limit neither their number nor their size

Each processor explains itself: its head, or `python FILE`, says how it is used (docs/export.md)."""

EPILOG = """\
examples:
  orchestrator export outputs/evolve --to vllm
  orchestrator export outputs/evolve --to transformers --node g2_child3_mut --output steer.py

results: the file, and the command that uses it on standard output.
exit status: 0 written; 1 the arguments are wrong, or the folder has no such result; 2 the file cannot be written."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("export", DESCRIPTION, EPILOG)
    common.add_run(parser)
    parser.add_argument("--to", required=True, choices=ENGINES, metavar="ENGINE", help="one of the engines above")
    parser.add_argument(
        "--node", default="", help="an individual of the run, as individuals.jsonl names it (default: the winner)"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="the file (default: in the run's folder exports)")
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: _export(arguments))


def _export(arguments: argparse.Namespace) -> int:
    from orchestrator.export.steering import PROCESSOR, read_steering
    from orchestrator.export.targets import TARGETS, default_file
    from orchestrator.output import check_inputs, write_output
    from orchestrator.results import RunResults

    target = TARGETS[arguments.to]
    steering = read_steering(arguments.run, arguments.node)
    file = arguments.output or default_file(arguments.run, arguments.to, arguments.node)
    target.check_name(file)
    check_inputs("--output", file, {name: arguments.run / name for name in (PROCESSOR, "individuals.jsonl")})
    text = target.render(steering, RunResults.open(arguments.run).system_prompt)
    file.parent.mkdir(parents=True, exist_ok=True)
    for name, content in target.beside(steering).items():
        (file.parent / name).parent.mkdir(parents=True, exist_ok=True)
        write_output(file.parent / name, content)
    write_output(file, text)
    print(f"{file}\n\n  {target.command_for(file)}")
    if file.suffix == ".py":
        print(f"\nmore: python {shlex.quote(str(file))}")
    return exit_status.DONE
