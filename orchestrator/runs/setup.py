"""What a run needs before its first generation: examples, descriptions and the clustering of the vocabulary.

Descriptions of clusters of discovered tokens by the reflector, asked for once for each clustering.

Clustering the vocabulary on the farm, without a run around it.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from celery import Celery
from typing_extensions import TypedDict

from orchestrator.dispatch.evaluator import POLL_S, Parked
from orchestrator.dispatch.producer import pop_result, send
from orchestrator.farm.connection import FarmConnection, open_farm
from orchestrator.output import OutputError, read_json, write_output
from orchestrator.report.view import Snapshot, View
from orchestrator.settings import Settings, SettingsError, make_run, select_indices
from tasks.code_version import code_version
from tasks.dataset import DatasetError, load_examples
from tasks.message import Hash
from tasks.models import Example
from tasks.openai.describe import DESCRIBED
from tasks.store.store import Store
from tasks.validation import InvalidData, check_value, checked_json

Examples = dict[str, list[Example]]


def choose_examples(settings: Settings) -> Examples:
    """The training and the validation set, fixed for the run.

    Raises: SettingsError for indices that the data set does not have, or a data set that cannot be read.
    """
    try:
        rows = load_examples(settings.financebench_path)
    except DatasetError as error:
        raise SettingsError([f"CONFIG_FINANCEBENCH_PATH: {line}" for line in str(error).splitlines()]) from None
    chosen, problems = {}, []
    for which, option in (("training", "financebench_pool_indices"), ("validation", "validation_indices")):
        try:
            indices = select_indices(getattr(settings, option), len(rows))
        except ValueError as error:
            problems.append(f"CONFIG_{option.upper()}: {error}")
            indices = ()
        chosen[which] = [rows[i] for i in indices]
    shared = {e.id for e in chosen["training"]} & {e.id for e in chosen["validation"]}
    if shared and not problems:
        problems.append(f"CONFIG_VALIDATION_INDICES: {len(shared)} rows are in the training set as well")
    if problems:
        raise SettingsError(problems)
    return chosen


def put_examples(store: Store, run_id: str, examples: Examples) -> None:
    store.put_examples(run_id, {w: [dataclasses.asdict(e) for e in found] for w, found in examples.items()})


def ensure_clustering(
    app: Celery, store: Store, run_id: str, watch: Callable[[str, tuple[int, int] | None], None], patience_s: float
) -> str:
    """The content hash of the run's clustering, made on the gpu queue unless it is there already.

    `watch` is told the step and (done, total).  Raises: Parked when the gpu queue cannot do it.
    """
    found = store.metadata(run_id, "clustering")
    if found is not None and store.has_clustering(found):
        return found
    task = send(app, "gpu.cluster", [run_id])
    seen, since = "", time.monotonic()
    while (ended := pop_result(app, task))[0] is None:
        progress = store.metadata(run_id, "progress") or ""
        if progress != seen:
            seen, since = progress, time.monotonic()
        elif time.monotonic() - since > patience_s:
            raise Parked(f"the vocabulary has not been clustered, and nothing moved for {patience_s:.0f} s")
        step: dict[str, Any] = json.loads(progress) if progress else {"stage": "waiting for a gpu worker"}
        counted = (int(step["done"]), int(step["total"])) if step.get("total") else None
        watch(step["stage"], counted)
        store.wait(run_id, POLL_S)
    if ended[0] != "SUCCESS":
        raise Parked(f"the vocabulary could not be clustered: {ended[1]}")
    return str(store.metadata(run_id, "clustering"))


class ClusterDescription(TypedDict):
    """An entry of the file that CONFIG_CLUSTER_DESCRIPTIONS_PATH names."""

    id: int | str
    description: str


def override_descriptions(store: Store, run_id: str, path: Path, clusters: int) -> None:
    """Have the reflector read descriptions of the user's own.  Raises: SettingsError."""
    try:
        values = read_json(path, list[ClusterDescription], checked_json)
        ids = sorted(int(d["id"]) for d in values)
    except (FileNotFoundError, OutputError, ValueError) as error:
        raise SettingsError([f"CONFIG_CLUSTER_DESCRIPTIONS_PATH: {error}"]) from None
    if ids != list(range(clusters)):
        wanted = f"one description for each of 0..{clusters - 1}"
        raise SettingsError([f"CONFIG_CLUSTER_DESCRIPTIONS_PATH: {path} holds {ids}, not {wanted}"])
    store.put_metadata(run_id, "descriptions", json.dumps(values))


Watch = Callable[[str, tuple[int, int] | None], None]


def describe_discovered(
    farm: FarmConnection, settings: Settings, run_id: str, watch: Watch, line: Callable[[str], None]
) -> None:
    """Have the run use the reflector's descriptions of its clusters, when these come from discovered tokens.

    What was said of a clustering is kept beside its folder and not asked for again.  Where rules answer in place of a
    language model, no key is there, or no reply can be used, the descriptions by rule stay, and `line` says why.
    Raises: Parked when the openai queue cannot do it.
    """
    clustering = farm.store.metadata(run_id, "clustering")
    if settings.clusters_from is None or clustering is None:
        return
    try:
        check_value(Hash, clustering, "the clustering")
    except InvalidData as error:
        raise Parked(str(error)) from None
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
        write_output(path, json.dumps(kept, indent=2, ensure_ascii=False) + "\n")
    farm.store.put_metadata(run_id, "descriptions", json.dumps(descriptions))


def _kept(path: Path, model: str) -> list[dict[str, Any]] | None:
    """What this model said before; None where it has not, or where the file is of no use."""
    try:
        kept = json.loads(path.read_text("utf-8"))
        found: list[dict[str, Any]] | None = kept["descriptions"] if kept["model"] == model else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found


def _asked(farm: FarmConnection, run_id: str, watch: Watch, patience_s: float) -> dict[str, Any]:
    task, since = send(farm.app, "openai.describe", [run_id]), time.monotonic()
    while (ended := pop_result(farm.app, task))[0] is None:
        if time.monotonic() - since > patience_s:
            raise Parked(f"the clusters have not been described within {patience_s:.0f} s")
        watch("describing the clusters", None)
        farm.store.wait(run_id, POLL_S)
    if ended[0] != "SUCCESS":
        raise Parked(f"the clusters could not be described: {ended[1]}")
    said: dict[str, Any] = json.loads(farm.store.metadata(run_id, DESCRIBED) or "{}")
    return said


def cluster_only(settings: Settings, view: View) -> tuple[str, list[dict[str, Any]]]:
    """The folder of the clustering and its descriptions.  Raises: FarmUnavailable, Parked."""
    run_id = f"cluster-{secrets.token_hex(4)}"
    started = time.monotonic()
    with open_farm(settings, view.notify) as farm:

        def watch(step: str, progress: tuple[int, int] | None) -> None:
            farm.check()
            elapsed = time.monotonic() - started
            view.show(Snapshot(run_id, 0, 0, "clusters", elapsed_s=elapsed, note=step, progress=progress))

        farm.store.put_run(make_run(settings, run_id))
        farm.store.set_requirements(run_id, code_version(), settings.target_model)
        try:
            found = ensure_clustering(farm.app, farm.store, run_id, watch, settings.stage_timeout_s)
            describe_discovered(farm, settings, run_id, watch, view.notify)
            return str(settings.clusters_dir / found), farm.store.descriptions(run_id)
        finally:
            farm.store.delete_run(run_id)
