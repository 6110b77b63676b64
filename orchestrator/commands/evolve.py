"""`orchestrator evolve`: run the evolution, or go on with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from orchestrator import console
from orchestrator.commands import options


@options.command(drives=True)
@options.settings_options()
@click.option("--fresh", is_flag=True, help="set aside the run that the output folder holds")
@click.option(
    "--fork", metavar="RUN[@PLACE]", type=options.RunFolder(),
    help="begin a run of its own with the population of another one: at the end of RUN, at a generation (RUN@2), or "
    "with one individual (RUN@g1_child0_mut); its settings are RUN's where no --config is given",
)  # fmt: skip
@options.retry_wait_option
@options.plain_option
def evolve(
    config: Path,
    overrides: Sequence[str],
    output: str | None,
    fresh: bool,
    fork: Path | None,
    retry_wait_s: float,
    plain: bool,
) -> int:
    """Run the evolution that a .config describes, or go on with it.

    The run lives in its output folder: the same command goes on where a run was stopped, by Ctrl+C, by a crash or by a
    power cut, and repeats no evaluation and no call that was finished.  With CONFIG_FARM="embedded" the farm is started
    and taken down with the run; with an address the workers there do the work.

    Without a .config the error names three ways to begin.

    examples:
      orchestrator evolve                                        with .config, which `orchestrator init` writes
      orchestrator evolve --config configs/embedded.config
      orchestrator evolve --config configs/embedded.config --set NGEN=6 --output outputs/longer
      orchestrator evolve --config configs/gpu.config --set TARGET_CONCURRENCY=256
      orchestrator evolve --fork outputs/evolve@2 --output outputs/shorter --set LAMBDA_SHORTNESS=0.6

    results: the output folder (CONFIG_OUTPUT_DIR or --output): report.txt, deploy/ for a server, front.json and others;
    the report also on standard output.
    exit status: 0 done; 1 settings or arguments are wrong, nothing was started; 2 an error of the farm; 3 parked; 4
    another process works on the run; 130 interrupted; 143 terminated.
    """
    if fork is None and options.is_without_settings(config):
        return console.fail(console.WRONG, *_ways(config))
    if fork is None:
        settings, begin = options.load_given(config, overrides, output), None
    else:
        from orchestrator.evolve.fork import resolve_fork

        named = None if config == options.DEFAULT_CONFIG else config
        settings, begin = resolve_fork(str(fork), named, options.overrides_of(overrides, output))
    # Imported here: this needs Celery, and wrong settings are reported at once.
    from orchestrator.evolve.run import start_evolution

    return start_evolution(settings, fresh=fresh, plain=plain, fork=begin, retry_wait_s=retry_wait_s).exit()


def _ways(missing: Path) -> list[str]:
    """How to begin without the settings that are missing."""
    from orchestrator.farm.connection import unused_reason

    return [
        f"{missing}: there is no such file.  Three ways to begin:",
        "  orchestrator evolve --config configs/evolve.config   a small model on this machine, free",
        f"  orchestrator init                                 four questions, then a complete {missing}",
        f"  make menuconfig                                   every option; configs/ has files to copy to {missing}",
        *filter(None, [unused_reason(Path.cwd())]),
    ]
