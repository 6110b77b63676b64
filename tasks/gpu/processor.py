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
from tasks.gpu.processor_template import Parts, check_clusters, render_file
from tasks.job import Job, JobTask, run_job
from tasks.message import ContentKey, Count, RunId
from tasks.store.keys import CLUSTERING
from tasks.store.store import Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PARTS = Parts(
    summary=": adds to each token's logit the delta of the token's cluster.",
    contents="the numbers to read are in DELTAS. Needs torch and SGLang",
    request=""":

       {"text": "...", "sampling_params": {...}, "custom_logit_processor": "<the string>"}""",
    constants="# What is added to the logits of each cluster's tokens. Positive is more of them, negative is fewer.",
    file_name="processor_best.py",
    parameters="A request's parameters change nothing.",
    steering="""\
def _bias(params, width, device):
    return _fixed_bias(width, device)


@functools.lru_cache(maxsize=8)
def _fixed_bias(width, device):
    deltas = [DELTAS[str(cluster)] for cluster in range(len(DELTAS))]
    return torch.tensor([*deltas, 0.0], dtype=torch.float32, device=device)[_labels(width, device)]
""",
)


def render_processor(
    deltas: Mapping[str, float],
    labels: NDArray[np.integer[Any]],
    clustering: str,
    descriptions: Sequence[Mapping[str, Any]],
) -> str:
    """The text of the processor's file. Equal input gives equal text.

    `deltas`: cluster id ("0", "1", ...) to a finite float, every cluster from 0 on.  `labels` [V]: the cluster of each
    token.  `clustering`: the content hash that the labels have.  `descriptions`: {"id", "description"} of clusters, for
    the comments; whatever their text, they stay comments.
    Raises: ValueError when deltas and labels do not belong together, or the hash is none.
    """
    check_clusters(deltas, labels, clustering)
    return render_file(_PARTS, clustering, {c: repr(float(d)) for c, d in deltas.items()}, labels, descriptions)


def processor_reference() -> str:
    """The value of `custom_logit_processor` that selects the class of a file with the name `PROCESSOR_FILE`."""
    pickled = b"\x80\x04c" + PROCESSOR_FILE.removesuffix(".py").encode() + b"\nDeltaProcessor\n."
    return json.dumps({"callable": pickled.hex()})


def generate(store: Store, run_id: str, deltas: Sequence[float]) -> str:
    """The text of a processor for a run; `deltas` in canonical order.  Raises: LookupError without a clustering."""
    clustering = store.metadata(run_id, CLUSTERING)
    if clustering is None:
        raise LookupError(f"run {run_id} has no clustering")
    descriptions = store.clusterings.descriptions(run_id)
    by_id = {str(d["id"]): delta for d, delta in zip(descriptions, deltas, strict=True)}
    return render_processor(by_id, unpack_labels(store.clusterings.labels(clustering)), clustering, descriptions)


def generate_job(job: Job) -> dict[str, Any]:
    """Write the processor to the store as the run's file of this name."""
    text = generate(job.store, job.run, job.arguments["deltas"])
    job.store.put_file(job.run, job.key, text.encode())
    return {"file": job.arguments["name"]}


@shared_task(name="gpu.processor", base=JobTask)
def processor_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), generate_job)
