"""Generate a processor: a file that steers an SGLang server without Whetstone, from deltas and a run's clustering.

It imports only the standard library, torch and SGLang.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from celery import shared_task

from tasks.exports import PROCESSOR_FILE
from tasks.gpu.cluster import unpack_labels
from tasks.gpu.processor_template import NO_CHECK, ModelCheck, Parts, check_clusters, render_file, with_min_tokens
from tasks.gpu.sglang_file import FIXED
from tasks.job import Job, JobTask, run_job
from tasks.message import ContentKey, Count, RunId
from tasks.store.keys import CLUSTERING
from tasks.store.store import Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def render_processor(
    deltas: Mapping[str, float],
    labels: NDArray[np.integer[Any]],
    clustering: str,
    descriptions: Sequence[Mapping[str, Any]],
    check: ModelCheck = NO_CHECK,
    parts: Parts = FIXED,
) -> str:
    """The text of a file with fixed deltas, by default SGLang's. Equal input gives equal text.

    `deltas`: cluster id ("0", "1", ...) to a finite float, every cluster from 0 on.  `labels` [V]: the cluster of each
    token.  `clustering`: the content hash that the labels have.  `descriptions`: {"id", "description"} of clusters, for
    the comments; whatever their text, they stay comments.  `check` is of the model that the deltas were found with.
    Raises: ValueError when deltas and labels do not belong together, or the hash is none.
    """
    check_clusters(deltas, labels, clustering)
    values = {cluster: repr(float(delta)) for cluster, delta in deltas.items()}
    told = with_min_tokens(parts, check["min_new_tokens"])
    return render_file(told, clustering, values, labels, descriptions, check)


def processor_reference() -> str:
    """The value of `custom_logit_processor` that selects the class of a file with the name `PROCESSOR_FILE`."""
    pickled = b"\x80\x04c" + PROCESSOR_FILE.removesuffix(".py").encode() + b"\nDeltaProcessor\n."
    return json.dumps({"callable": pickled.hex()})


def generate(store: Store, run_id: str, deltas: Sequence[float], check: ModelCheck = NO_CHECK) -> str:
    """The text of a processor for a run; `deltas` in canonical order.  Raises: LookupError without a clustering."""
    clustering = store.metadata(run_id, CLUSTERING)
    if clustering is None:
        raise LookupError(f"run {run_id} has no clustering")
    descriptions = store.clusterings.descriptions(run_id)
    by_id = {str(d["id"]): delta for d, delta in zip(descriptions, deltas, strict=True)}
    return render_processor(by_id, unpack_labels(store.clusterings.labels(clustering)), clustering, descriptions, check)


def generate_job(job: Job) -> dict[str, Any]:
    """Write the processor to the store as the run's file of this name."""
    deltas = job.arguments["deltas"]
    text = generate(job.store, job.run, deltas, check_for(job, deltas))
    job.store.put_file(job.run, job.key, text.encode())
    return {"file": job.arguments["name"]}


def check_for(job: Job, deltas: Sequence[float]) -> ModelCheck:
    """The check of the run's model that the job's file is to hold; an empty one without the argument `check`."""
    from tasks.gpu.model_check import make_check, no_check  # which asks the target, and that needs this module

    asked = job.arguments.get("check")
    if not asked:
        return no_check(job.store, job.run, deltas)
    return make_check(job.store, job.run, deltas, asked["system_prompt"])


@shared_task(name="gpu.processor", base=JobTask)
def processor_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), generate_job)
