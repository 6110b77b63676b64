"""`orchestrator evolve`: run the evolution, or go on with it."""

from __future__ import annotations

import argparse

from orchestrator import exit_status
from orchestrator.commands import common

DESCRIPTION = """\
Run the evolution that a .config describes, or go on with it.

The run lives in its output folder: the same command goes on where a run was stopped, by Ctrl+C, by a crash or by a
power cut, and repeats no evaluation and no call that was finished.  With CONFIG_FARM="embedded" the farm is started
and taken down with the run; with "external" the workers at CONFIG_REDIS_URL do the work.

Without a .config it asks at a terminal how to begin; elsewhere that is an error which names the ways."""

EPILOG = """\
examples:
  orchestrator evolve                                        with .config, which `orchestrator init` writes
  orchestrator evolve --config configs/embedded.config
  orchestrator evolve --config configs/embedded.config --set NGEN=6 --output outputs/longer
  orchestrator evolve --config configs/gpu.config --set GPU_SLOTS=8

results: the output folder (CONFIG_OUTPUT_DIR or --output): processor_best.py, system_prompt.txt, report.txt and others;
the report also on standard output.
exit status: 0 done; 1 settings or arguments are wrong, nothing was started; 2 an error of the farm; 3 parked; 4 another
process works on the run; 130 interrupted; 143 terminated."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("evolve", DESCRIPTION, epilog=EPILOG)
    common.add_settings(parser)
    parser.add_argument("--fresh", action="store_true", help="set aside the run that the output folder holds")
    parser.add_argument("--plain", action="store_true", help="plain lines, also in a terminal")
    return parser


def run(arguments: argparse.Namespace) -> int:
    from orchestrator.init.asking import NoAnswer
    from orchestrator.init.ways import begin

    def work() -> int:
        if common.is_without_settings(arguments.config):
            try:
                chosen = begin(arguments.config)
            except NoAnswer as error:
                return exit_status.fail(exit_status.WRONG, str(error))
            if chosen is None:
                return exit_status.DONE
            arguments.config = chosen
        settings = common.settings_from_arguments(arguments)
        # Imported here: this needs Celery, and wrong settings are reported at once.
        from orchestrator.runs.evolve import start_evolution

        return start_evolution(settings, fresh=arguments.fresh, plain=arguments.plain).exit()

    return common.handle_errors(work, full_disk=exit_status.PARKED)
