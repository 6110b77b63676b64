"""`orchestrator evolve`: run the evolution, or only make the clusters that it begins with."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from orchestrator import console
from orchestrator.commands import options
from orchestrator.console import raise_on_signals

if TYPE_CHECKING:
    from orchestrator.settings.options import Settings


@options.command(drives=True)
@options.settings_options()
@click.option("--fresh", is_flag=True, help="set aside the run that the output folder holds")
@click.option(
    "--fork", metavar="RUN[@PLACE]", type=options.path_option,
    help="begin a run of its own with the population of another one: at the end of RUN, at a generation (RUN@2), or "
    "with one individual (RUN@g1_child0_mut); its settings are RUN's where no --config is given",
)  # fmt: skip
@click.option("--step", type=click.Choice(("all", "cluster")), default="all",
              help="the whole; or the clusters of the vocabulary only (all)")  # fmt: skip
@options.retry_wait_option
@options.plain_option
def evolve(
    config: Path,
    overrides: Sequence[str],
    output: str | None,
    fresh: bool,
    fork: Path | None,
    step: Literal["all", "cluster"],
    retry_wait_s: float,
    plain: bool,
) -> int:
    """Run the evolution that a .config describes, or go on with it.

    The run lives in its output folder: the same command goes on where a run was stopped, by Ctrl+C, by a crash or by a
    power cut, and repeats no evaluation and no call that was finished.  With CONFIG_FARM="embedded" the farm is started
    and taken down with the run; with an address the workers there do the work.

    examples:
      orchestrator evolve                                        with .config, which `orchestrator init` writes
      orchestrator evolve --config configs/embedded.config
      orchestrator evolve --config configs/embedded.config --set NGEN=6 --output outputs/longer
      orchestrator evolve --config configs/gpu.config --set TARGET_CONCURRENCY=256
      orchestrator evolve --config my.config --step cluster --set CLUSTERS_FROM=outputs/collect/phase0_data.json
      orchestrator evolve --fork outputs/evolve@2 --output outputs/shorter --set LAMBDA_SHORTNESS=0.6

    With --step cluster every token of the vocabulary is decoded, embedded, reduced by PCA and clustered by k-means; or,
    with CONFIG_CLUSTERS_BY="waste", clustered by how much more verbose answers use it than short right ones.  The
    result is in a folder under outputs/clusters that is named by a hash of its inputs, so that it is made once; the
    clusters with their sizes and descriptions, and at last its path, go to standard output.

    results: the output folder (CONFIG_OUTPUT_DIR or --output): report.txt, deploy/ for a server, front.json and others;
    the report also on standard output.
    exit status: 0 done; 1 settings or arguments are wrong, nothing was started; 2 an error of the farm; 3 parked; 4
    another process works on the run; 130 interrupted; 143 terminated.
    """
    if fork is not None and step == "cluster":
        raise click.UsageError("--fork and --step cluster exclude each other")
    if fork is None:
        settings, begin = options.load_given(config, overrides, output), None
    else:
        from orchestrator.evolve.fork import resolve_fork

        given = options.overrides_of(overrides, output)
        settings, begin = resolve_fork(str(fork), None if config == options.DEFAULT_CONFIG else config, given)
    if step == "cluster":
        return _cluster_only(settings)
    # Imported here: this needs Celery, and wrong settings are reported at once.
    from orchestrator.evolve.session import start_evolution

    return start_evolution(settings, fresh=fresh, plain=plain, fork=begin, retry_wait_s=retry_wait_s).exit()


def _cluster_only(settings: Settings) -> int:
    from orchestrator.evolve.arms import cluster_only
    from orchestrator.farm import Parked
    from orchestrator.report.live import open_view

    raise_on_signals()
    with closing(open_view(sys.stderr)) as view:
        try:
            folder, descriptions = cluster_only(settings, view)
        except Parked as parked:
            return console.fail(console.BROKEN, parked.reason)
    lines = [f"{one['id']:>4}  {one['count']:>7,}  {one['description']}" for one in descriptions]
    options.print_found(False, None, [*lines, f"in {folder}"])
    return console.DONE
