"""`orchestrator cluster`: cluster the vocabulary of the target, once."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from orchestrator.commands import common
from orchestrator.settings import Settings
from orchestrator.signals import Terminated, raise_on_sigterm

DESCRIPTION = """\
Cluster the vocabulary of the target model, as `orchestrator evolve` does before its first generation.

Every token is decoded and embedded, reduced by PCA and clustered by k-means; end-of-turn tokens are cluster 0, digits
and arithmetic symbols cluster 1.  The result lies under CONFIG_CLUSTERS_DIR in a folder named by its content, so the
same vocabulary under the same settings is clustered once.

With --from, PCA and k-means are fitted on the tokens that `orchestrator collect` discovered, and every other token goes
to the nearest centre.  The clusters are then described by the reflector, or by rules where no key for it is there."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("cluster", DESCRIPTION)
    common.add_settings(parser)
    parser.add_argument(
        "--from", type=Path, metavar="FILE", dest="discovered",
        help="Phase 0's output; in place of CONFIG_CLUSTERS_FROM",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="the descriptions as JSON")
    return parser


def run(arguments: argparse.Namespace) -> int:
    if arguments.discovered is not None:
        arguments.overrides.append(f"CLUSTERS_FROM={arguments.discovered}")
    return common.handle_errors(lambda: cluster(common.read_settings(arguments), as_json=arguments.json))


def cluster(settings: Settings, *, as_json: bool) -> int:
    from orchestrator.dispatch.evaluator import Parked
    from orchestrator.report.view import open_view
    from orchestrator.runs.setup import cluster_only

    raise_on_sigterm()
    view = open_view(sys.stderr)
    try:
        folder, descriptions = cluster_only(settings, view)
    except Parked as parked:
        return common.fail(common.BROKEN, parked.reason)
    except KeyboardInterrupt:
        return common.fail(common.INTERRUPTED, "interrupted; nothing half made is left")
    except Terminated:
        return common.fail(common.TERMINATED, "terminated; nothing half made is left")
    finally:
        view.close()
    if as_json:
        print(json.dumps(descriptions, indent=2, ensure_ascii=False))
        return common.DONE
    for cluster in descriptions:
        print(f"{cluster['id']:>4}  {cluster['count']:>7,}  {cluster['description']}")
    print(f"in {folder}")
    return common.DONE
