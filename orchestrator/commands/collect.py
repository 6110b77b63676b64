"""`orchestrator collect`: from questions to the tokens that a model wastes."""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator import console
from orchestrator.commands import common

DESCRIPTION = """\
Find the tokens that a model wastes: sample verbose answers of the target, have the reflector compress them, keep the
pairs whose compressed answer the judge finds correct, and compare how often each token occurs on the two sides.

Everything comes from a YAML file in which every key is set (see configs/collect.yaml and docs/collect.md)."""

EPILOG = """\
examples:
  orchestrator collect --config configs/collect.yaml
  orchestrator collect --config configs/collect.yaml --resume
  orchestrator collect --config configs/collect.yaml --farm external --redis-url redis://127.0.0.1:6379/0 --budget 5 \\
      --price-prompt 2.5 --price-cached 1.25 --price-completion 10

results: the file phase0.output_path of the YAML, and beside it checkpoints and the log; a summary on standard output.
exit status: 0 done; 1 the file or arguments are wrong, nothing was started; 2 an error of the farm; 3 parked: tasks
failed for good; 4 another process works on this collection; 130 interrupted; 143 terminated.  Except after 0, 1 and 4,
`orchestrator retry FOLDER`, or the same command with --resume, resumes it."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("collect", DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the YAML file")
    start = parser.add_mutually_exclusive_group()
    start.add_argument("--resume", action="store_true", help="skip what the checkpoint files hold")
    start.add_argument("--fresh", action="store_true", dest="is_fresh",
                       help="compute everything anew: set the collection in the output folder aside, and take nothing "
                            "from the store (without: results of equal settings are taken from it)")  # fmt: skip
    farm = common.add_own_farm(parser)
    farm.add_argument("--requests-per-minute", type=int, default=argparse.SUPPRESS, metavar="N",
                      help="most requests a minute to an OpenAI endpoint, of all workers together")  # fmt: skip
    farm.add_argument("--tokens-per-minute", type=int, default=argparse.SUPPRESS, metavar="N",
                      help="most tokens a minute, likewise")  # fmt: skip
    farm.add_argument("--context-tokens", type=int, default=argparse.SUPPRESS, metavar="N",
                      help="longest prompt and reply together, of both models (default: no check)")  # fmt: skip
    common.add_cost(parser, "the calls to both endpoints")
    return parser


def run(arguments: argparse.Namespace) -> int:
    def work() -> int:
        from orchestrator.collect.settings import FarmOptions, read_collect_settings
        from orchestrator.runs.folder import check_inputs

        settings = read_collect_settings(arguments.config)
        check_inputs("phase0.output_path", Path(settings.phase0.output_path), {"--config": arguments.config})
        # Imported here: this needs Celery, and wrong settings are reported at once.
        from orchestrator.collect.run import end_collection, start_collection

        options = common.parse_options(arguments, FarmOptions)
        return end_collection(start_collection(settings, options, resume=arguments.resume), settings)

    return common.handle_errors(work, full_disk=console.PARKED)
