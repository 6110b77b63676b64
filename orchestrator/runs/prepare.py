"""What a run needs before its first generation: examples, descriptions and the clustering of the vocabulary."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from celery import Celery

from orchestrator.dispatch.evaluator import POLL_S, Parked
from orchestrator.dispatch.single import send, task_end
from orchestrator.json_files import JsonFileError, read_json
from orchestrator.settings import Settings, SettingsError, select_indices
from tasks.dataset import DatasetError, load_examples
from tasks.records import Example
from tasks.store import Store

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
    found = store.fact(run_id, "clustering")
    if found is not None and store.has_clustering(found):
        return found
    task = send(app, "gpu.cluster", [run_id])
    seen, since = "", time.monotonic()
    while (ended := task_end(app, task))[0] is None:
        progress = store.fact(run_id, "progress") or ""
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
    return str(store.fact(run_id, "clustering"))


def override_descriptions(store: Store, run_id: str, path: Path, clusters: int) -> None:
    """Have the reflector read descriptions of the user's own.  Raises: SettingsError."""
    try:
        values = read_json(path, [{"id": (int, str), "description": str}])
        ids = sorted(int(d["id"]) for d in values)
    except (FileNotFoundError, JsonFileError, ValueError) as error:
        raise SettingsError([f"CONFIG_CLUSTER_DESCRIPTIONS_PATH: {error}"]) from None
    if ids != list(range(clusters)):
        wanted = f"one description for each of 0..{clusters - 1}"
        raise SettingsError([f"CONFIG_CLUSTER_DESCRIPTIONS_PATH: {path} holds {ids}, not {wanted}"])
    store.put_fact(run_id, "descriptions", json.dumps(values))
