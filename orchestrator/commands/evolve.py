"""`orchestrator evolve`: run the evolution, or go on with it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import console
from orchestrator.commands import common
from orchestrator.completing import complete_run, with_completer

if TYPE_CHECKING:
    from orchestrator.evolve.fork import Fork
    from orchestrator.settings import Settings

DESCRIPTION = """\
Run the evolution that a .config describes, or go on with it.

The run lives in its output folder: the same command goes on where a run was stopped, by Ctrl+C, by a crash or by a
power cut, and repeats no evaluation and no call that was finished.  With CONFIG_FARM="embedded" the farm is started
and taken down with the run; with an address the workers there do the work.

Without a .config the error names three ways to begin."""

EPILOG = """\
examples:
  orchestrator evolve                                        with .config, which `orchestrator init` writes
  orchestrator evolve --config configs/embedded.config
  orchestrator evolve --config configs/embedded.config --set NGEN=6 --output outputs/longer
  orchestrator evolve --config configs/gpu.config --set TARGET_CONCURRENCY=256
  orchestrator evolve --fork outputs/evolve@2 --output outputs/shorter --set LAMBDA_SHORTNESS=0.6

results: the output folder (CONFIG_OUTPUT_DIR or --output): report.txt, deploy/ for a server, front.json and others;
the report also on standard output.
exit status: 0 done; 1 settings or arguments are wrong, nothing was started; 2 an error of the farm; 3 parked; 4 another
process works on the run; 130 interrupted; 143 terminated."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("evolve", DESCRIPTION, epilog=EPILOG)
    common.add_settings(parser)
    parser.add_argument("--fresh", action="store_true", help="set aside the run that the output folder holds")
    action = parser.add_argument(
        "--fork", metavar="RUN[@PLACE]",
        help="begin a run of its own with the population of another one: at the end of RUN, at a generation (RUN@2), "
             "or with one individual (RUN@g1_child0_mut); its settings are RUN's where no --config is given",
    )  # fmt: skip
    with_completer(action, complete_run)
    common.add_retry_wait(parser)
    parser.add_argument("--plain", action="store_true", help="plain lines, also in a terminal")
    return parser


def run(arguments: argparse.Namespace) -> int:
    def work() -> int:
        if not arguments.fork and common.is_without_settings(arguments.config):
            return console.fail(console.WRONG, *_ways(arguments.config))
        settings, fork = _settings(arguments)
        # Imported here: this needs Celery, and wrong settings are reported at once.
        from orchestrator.evolve.run import start_evolution

        ending = start_evolution(
            settings, fresh=arguments.fresh, plain=arguments.plain, fork=fork, retry_wait_s=arguments.retry_wait_s
        )
        return ending.exit()

    return common.handle_errors(work, full_disk=console.PARKED)


def _ways(missing: Path) -> list[str]:
    """How to begin without the settings that are missing."""
    from orchestrator.farm.compose import unused_reason

    return [
        f"{missing}: there is no such file.  Three ways to begin:",
        "  orchestrator evolve --config configs/evolve.config   a small model on this machine, free",
        f"  orchestrator init                                 four questions, then a complete {missing}",
        f"  make menuconfig                                   every option; configs/ has files to copy to {missing}",
        *filter(None, [unused_reason(Path.cwd())]),
    ]


def _settings(arguments: argparse.Namespace) -> tuple[Settings, Fork | None]:
    """What to run with, and what a fork begins with."""
    if not arguments.fork:
        return common.settings_from_arguments(arguments), None
    from orchestrator.evolve.fork import resolve_fork

    config = None if arguments.config == common.DEFAULT_CONFIG else arguments.config
    return resolve_fork(arguments.fork, config, common.overrides_of(arguments))
