"""`orchestrator export`: what a run has found as a file for an inference engine."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from orchestrator import console
from orchestrator.commands import options
from orchestrator.export import ENGINES, engines_for


@options.command()
@options.run_argument
@click.option("--to", required=True, type=click.Choice(ENGINES), metavar="ENGINE", help="one of the engines above")
@click.option("--system", default="", metavar="NAME",
              help="a system of the run, as front.json names it (default: the winner)")  # fmt: skip
@click.option("--node", default="", help="an individual of the search, as individuals.jsonl names it")
@click.option(
    "--output", type=options.path_option, metavar="FILE", help="the file to write (default: in exports/ of the run)"
)
def export(run: Path, to: str, system: str, node: str, output: Path | None) -> int:
    """Write what a run has found as a file for an inference engine.

    The command that uses the file, and one complete request, are printed.

      sglang         a custom logit processor, which each request names
      sglang-server  a plugin that steers all chat completions of a server; also for a system prompt alone
      vllm           a logits processor for model runner V1 and V2
      transformers   a LogitsProcessor for generate()
      llama-cpp      a processor for llama-cpp-python, and biases for llama-server

    The head of each processor says how it is used; `python FILE` prints the head (docs/serve.md).

    examples:
      orchestrator export outputs/evolve --to vllm
      orchestrator export outputs/evolve --to sglang --system "two sentences: log-odds x1"
      orchestrator export outputs/evolve --to transformers --node g2_child3_mut --output steer.py

    exit status: 0 written; 1 the arguments are wrong, or the folder has no such result; 2 the file cannot be written.
    """
    from orchestrator.export.targets import TARGETS, default_file, read_steering
    from orchestrator.runs.folder import OutputError, check_inputs, write_output

    if system and node:
        raise click.UsageError("--system and --node exclude each other")
    target = TARGETS[to]
    steering = read_steering(run, system, node)
    chosen = steering.system
    if to not in (engines := engines_for(chosen.kind, chosen.deltas)):
        instead = f"--to {' or '.join(engines)} takes it" if engines else "--system names another one (front.json)"
        if chosen.max_tokens:
            instead = f'set "max_tokens": {chosen.max_tokens} in each request'
        raise OutputError(f"{run}: {chosen.name!a} has nothing that {to} could add: {instead}")
    file = output or default_file(run, to, system or node)
    target.check_name(file)
    read = ("systems.json", "individuals.jsonl", "processor_best.py")
    check_inputs("--output", file, {name: run / name for name in read})
    text = target.render(steering, file.stem)
    file.parent.mkdir(parents=True, exist_ok=True)
    for name, content in target.beside(steering).items():
        (file.parent / name).parent.mkdir(parents=True, exist_ok=True)
        write_output(file.parent / name, content)
    write_output(file, text)
    if not steering.is_shown:
        shown = f"it is not shown that {chosen.name} loses less than the margin of correct answers"
        print(f"warning: {shown}", file=sys.stderr)
    command, request = target.command_for(file, steering.asked["model"]), target.request_text(steering, file.stem)
    print(f"{file}\n\n  {command}\n\n{steering.said}\n\n{request}")
    if file.suffix == ".py":
        print(f"\nmore: python {shlex.quote(str(file))}")
    return console.DONE
