"""Clustering the vocabulary on the farm, without a run around it."""

from __future__ import annotations

import secrets
import time
from typing import Any

from orchestrator.report.snapshot import Snapshot
from orchestrator.report.view import View
from orchestrator.runs.describing import describe_discovered
from orchestrator.runs.farm import open_farm
from orchestrator.runs.prepare import ensure_clustering
from orchestrator.settings import Settings, make_run
from tasks.code_version import code_version


def cluster_only(settings: Settings, view: View) -> tuple[str, list[dict[str, Any]]]:
    """The folder of the clustering and its descriptions.  Raises: FarmUnavailable, Parked."""
    run_id = f"cluster-{secrets.token_hex(4)}"
    started = time.monotonic()
    with open_farm(settings, view.line) as farm:

        def watch(step: str, progress: tuple[int, int] | None) -> None:
            farm.check()
            elapsed = time.monotonic() - started
            view.show(Snapshot(run_id, 0, 0, "clusters", elapsed_s=elapsed, note=step, progress=progress))

        farm.store.put_run(make_run(settings, run_id))
        farm.store.welcome(run_id, code_version(), settings.target_model)
        try:
            found = ensure_clustering(farm.app, farm.store, run_id, watch, settings.stage_timeout_s)
            describe_discovered(farm, settings, run_id, watch, view.line)
            return str(settings.clusters_dir / found), farm.store.descriptions(run_id)
        finally:
            farm.store.delete_run(run_id)
