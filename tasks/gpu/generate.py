"""Generating a processor: the file that steers a server by itself, from deltas and the run's clustering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from celery import shared_task

from tasks import context
from tasks.gpu import labels
from tasks.gpu.processor import render_processor
from tasks.message import Delta, RunId
from tasks.store import Store

ProcessorName = Literal["processor.py", "processor_best.py"]


def generate(store: Store, run_id: str, name: str, deltas: Sequence[float]) -> None:
    """Leave the processor's text in the store as the run's file `name`; `deltas` stand in canonical order."""
    clustering = store.fact(run_id, "clustering")
    if clustering is None:
        raise LookupError(f"run {run_id} has no clustering")
    descriptions = store.descriptions(run_id)
    by_id = {str(d["id"]): delta for d, delta in zip(descriptions, deltas, strict=True)}
    text = render_processor(by_id, labels.unpack(store.labels(clustering)), clustering, descriptions)
    store.put_file(run_id, name, text.encode())


@shared_task(name="gpu.processor")
def processor_task(run: RunId, name: ProcessorName, deltas: list[Delta]) -> None:
    generate(context.store_of(run), run, name, deltas)
