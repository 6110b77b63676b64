"""Descriptions of clusters of discovered tokens by the reflector, asked for once for each clustering."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.dispatch.evaluator import POLL_S, Parked
from orchestrator.dispatch.single import send, task_end
from orchestrator.output import write_atomic
from orchestrator.runs.farm import OpenFarm
from orchestrator.settings import Settings
from tasks.message import Hash, wrong
from tasks.openai.describe import FACT

Watch = Callable[[str, tuple[int, int] | None], None]


def describe_discovered(
    farm: OpenFarm, settings: Settings, run_id: str, watch: Watch, line: Callable[[str], None]
) -> None:
    """Have the run use the reflector's descriptions of its clusters, when these come from discovered tokens.

    What was said of a clustering is kept beside its folder and not asked for again.  Where rules answer in place of a
    language model, no key is there, or no reply can be used, the descriptions by rule stay, and `line` says why.
    Raises: Parked when the openai queue cannot do it.
    """
    clustering = farm.store.fact(run_id, "clustering")
    if settings.clusters_from is None or clustering is None:
        return
    if reason := wrong(Hash, clustering):
        raise Parked(f"the clustering {reason}")
    path = settings.clusters_dir / f"{clustering}.described.json"
    descriptions = _kept(path, settings.reflector_model)
    if descriptions is None and farm.rules:
        line("clusters are described by rules: the embedded farm has no language model to ask")
        return
    if descriptions is None:
        said = _asked(farm, run_id, watch, float(settings.stage_timeout_s))
        if said["by"] == "rules":
            line(f"clusters are described by rules: {said['why']}")
            return
        descriptions = said["descriptions"]
        kept = {"model": settings.reflector_model, "descriptions": descriptions}
        write_atomic(path, json.dumps(kept, indent=2, ensure_ascii=False) + "\n")
    farm.store.put_fact(run_id, "descriptions", json.dumps(descriptions))


def _kept(path: Path, model: str) -> list[dict[str, Any]] | None:
    """What this model said before; None where it has not, or where the file is of no use."""
    try:
        kept = json.loads(path.read_text("utf-8"))
        found: list[dict[str, Any]] | None = kept["descriptions"] if kept["model"] == model else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found


def _asked(farm: OpenFarm, run_id: str, watch: Watch, patience_s: float) -> dict[str, Any]:
    task, since = send(farm.app, "openai.describe", [run_id]), time.monotonic()
    while (ended := task_end(farm.app, task))[0] is None:
        if time.monotonic() - since > patience_s:
            raise Parked(f"the clusters have not been described within {patience_s:.0f} s")
        watch("describing the clusters", None)
        farm.store.wait(run_id, POLL_S)
    if ended[0] != "SUCCESS":
        raise Parked(f"the clusters could not be described: {ended[1]}")
    said: dict[str, Any] = json.loads(farm.store.fact(run_id, FACT) or "{}")
    return said
