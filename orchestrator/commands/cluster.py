"""`orchestrator cluster`: cluster the vocabulary of the target, once."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import console
from orchestrator.commands import common
from orchestrator.console import Terminated, raise_on_signals

if TYPE_CHECKING:
    from orchestrator.settings import Settings

DESCRIPTION = """\
Cluster the vocabulary of the target model, as `orchestrator evolve` does before its first generation.

Every token is decoded and embedded, reduced by PCA and clustered by k-means; or, with CONFIG_CLUSTERS_BY="waste",
clustered by how much more verbose answers use it than short right ones.  Cluster 0 is the end-of-turn tokens, cluster 1
the digits and arithmetic symbols.  The result is written to a folder under outputs/clusters that is named
by a hash of its inputs, so the same vocabulary with the same settings is clustered once.

With --from, PCA and k-means are fitted on the tokens that `orchestrator collect` discovered, and every other token is
assigned to the nearest centre.  The reflector then describes the clusters; rules do so with the embedded endpoint, and
without a key.  Clusters by waste are made of the pairs of answers in the same file."""

EPILOG = """\
examples:
  orchestrator cluster --config configs/embedded.config
  orchestrator cluster --config configs/embedded.config --from outputs/collect/phase0_data.json
  orchestrator cluster --config configs/embedded.config --set CLUSTERS=20 --json

results: a folder under outputs/clusters, whose path is printed last; the clusters with their sizes and descriptions
on standard output, progress on standard error.
exit status: 0 clustered; 1 the settings or arguments are wrong; 2 an error of the farm; 130 interrupted; 143
terminated."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("cluster", DESCRIPTION, EPILOG)
    common.add_settings(parser)
    parser.add_argument(
        "--from", type=Path, metavar="FILE", dest="collected",
        help="the output of `orchestrator collect`, in place of CONFIG_CLUSTERS_FROM",
    )  # fmt: skip
    common.add_json(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: _cluster(arguments))


def _settings(arguments: argparse.Namespace) -> Settings:
    """The settings with the file of `--from`."""
    if arguments.collected is not None:
        arguments.overrides.append(f"CLUSTERS_FROM={arguments.collected}")
    return common.settings_from_arguments(arguments)


def _cluster(arguments: argparse.Namespace) -> int:
    from orchestrator.evolve.clusters import cluster_only
    from orchestrator.farm.dispatcher import Parked
    from orchestrator.report.live import open_view

    settings = _settings(arguments)
    raise_on_signals()
    view = open_view(sys.stderr)
    try:
        folder, descriptions = cluster_only(settings, view)
    except Parked as parked:
        return console.fail(console.BROKEN, parked.reason)
    except KeyboardInterrupt:
        return console.fail(console.INTERRUPTED, "interrupted; no incomplete clustering is left")
    except Terminated as ended:
        return console.fail(console.BY_SIGNAL + ended.number, f"{ended}; no incomplete clustering is left")
    finally:
        view.close()
    lines = [f"{cluster['id']:>4}  {cluster['count']:>7,}  {cluster['description']}" for cluster in descriptions]
    common.print_found(arguments, {"folder": folder, "clusters": descriptions}, [*lines, f"in {folder}"])
    return console.DONE
