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


@options.command(drives=lambda given: given["step"] == "all")
@options.settings_options()
@click.option("--fresh", is_flag=True, help="set aside the run in the output folder, and begin a new one")
@click.option(
    "--fork", metavar="RUN[@PLACE]", type=options.path_option,
    help="begin a new run with the population of another one: that at the end (RUN), that of a generation (RUN@2), or "
    "one individual (RUN@g1_child0_mut); without --config it has the settings of RUN",
)  # fmt: skip
@click.option("--step", type=click.Choice(("all", "cluster")), default="all",
              help="the whole run, or only the clusters of the vocabulary (all)")  # fmt: skip
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
    """Run the evolution that a .config describes, or resume it.

    Everything about the run is in its output folder.  After Ctrl+C, a crash or a power cut the same command resumes the
    run, and repeats no finished evaluation or call.  With CONFIG_FARM="embedded" the farm is started and stopped with
    the run.  With an address the workers there do the work.

    examples:
      orchestrator evolve                                        with .config, which `orchestrator init` writes
      orchestrator evolve --config configs/embedded.config
      orchestrator evolve --config configs/embedded.config --set NGEN=6 --output outputs/longer
      orchestrator evolve --config configs/gpu.config --set TARGET_CONCURRENCY=256
      orchestrator evolve --config my.config --step cluster --set CLUSTERS_FROM=outputs/collect/phase0_data.json
      orchestrator evolve --fork outputs/evolve@2 --output outputs/shorter --set LAMBDA_SHORTNESS=0.6

    --step cluster makes the clusters without a run.  With CONFIG_CLUSTERS_BY="meaning" the tokens of the vocabulary are
    embedded, reduced by PCA and clustered by k-means.  With "waste" they are clustered by how much more often verbose
    answers use them than short right ones; CONFIG_CLUSTERS_FROM names these answers.  The result is in a folder under
    outputs/clusters.  Standard output has the clusters with their sizes and descriptions, and then this folder.

    results: the output folder (CONFIG_OUTPUT_DIR or --output): report.txt, deploy/ for a server, front.json and others;
    the report also on standard output.
    exit status: 0 done; 1 settings or arguments are wrong, nothing was started; 2 an error of the farm; 3 parked; 4
    another process works on the run; 129 the terminal hung up; 130 interrupted; 143 terminated.
    """
    if step == "cluster" and (fork is not None or fresh or plain or retry_wait_s):
        raise click.UsageError("--step cluster is without a run: it has no --fork, --fresh, --plain and --retry-wait")
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
