"""Generate a processor: a file that steers an SGLang server without Whetstone, from deltas and a run's clustering.

It imports only the standard library, torch and SGLang.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from celery import shared_task

from tasks.common.validation import ContentKey, Count, RunId
from tasks.gpu import host
from tasks.gpu.cluster import unpack_labels
from tasks.gpu.model_files import model_files, model_hashes
from tasks.gpu.processor_template import NO_CHECK, ModelCheck, render_file
from tasks.gpu.sglang_file import SGLANG
from tasks.job import Job, JobTask, run_job
from tasks.queues import PROCESSOR_FILE
from tasks.records import Target
from tasks.store.store import Store


def processor_reference() -> str:
    """The value of `custom_logit_processor` that selects the class of a file with the name `PROCESSOR_FILE`."""
    pickled = b"\x80\x04c" + PROCESSOR_FILE.removesuffix(".py").encode() + b"\nDeltaProcessor\n."
    return json.dumps({"callable": pickled.hex()})


def generate(
    store: Store, run_id: str, deltas: Sequence[float], check: ModelCheck = NO_CHECK, clustering: str = ""
) -> str:
    """The text of a processor for a run; `deltas` in canonical order, of the run's clustering or another one."""
    clustering = store.clusterings.chosen(run_id, clustering)
    descriptions = store.clusterings.descriptions(run_id, clustering)
    by_id = {str(d["id"]): delta for d, delta in zip(descriptions, deltas, strict=True)}
    labels, target = unpack_labels(store.clusterings.labels(clustering)), store.run(run_id).target
    packed = store.clusterings.ends(clustering) if target.sampling.end_after_sentence else b""
    ends = unpack_labels(packed).astype("uint8") if packed else None
    return render_file(SGLANG, by_id, labels, clustering, descriptions, check, ends)


def check_of(target: Target) -> ModelCheck:
    """The target's model, by the files that it has on this machine."""
    model = host.current().model_folder(target)
    config, tokenizer = _hashes(model)
    return ModelCheck(Path(model).name if Path(model).is_dir() else model, config, tokenizer)


@lru_cache(maxsize=4)
def _hashes(model: str) -> tuple[str, str]:
    found = model_hashes(model_files(model))
    return found["config"], found["tokenizer"]


def generate_job(job: Job) -> dict[str, Any]:
    """Write the processor to the store as the run's file of this name.

    The arguments: `name`, `deltas`, and with an arm's deltas its `clustering`.
    """
    deltas, clustering = job.arguments["deltas"], job.arguments.get("clustering", "")
    text = generate(job.store, job.run, deltas, check_of(job.store.run(job.run).target), clustering)
    job.store.put_file(job.run, job.key, text.encode())
    return {"file": job.arguments["name"]}


@shared_task(name="gpu.processor", base=JobTask)
def processor_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), generate_job)
