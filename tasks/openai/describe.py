"""Describing a run's clusters on the openai queue; clusters 0 and 1 keep the descriptions that they have by rule."""

from __future__ import annotations

import json
from typing import Any

from celery import shared_task

from tasks import context
from tasks.message import RunId
from tasks.openai import calling, describing
from tasks.openai.asking import Invalid, asker
from tasks.openai.errors import MissingKeyError, NoRuleError
from tasks.store import Store

FACT = "described"
FIXED = (0, 1)


def describe_clusters(store: Store, run_id: str) -> dict[str, Any]:
    """{"by": "model", "descriptions": [...]}, or {"by": "rules", "why": ...} where no key is there, rules
    answer in place of a model, or no reply is usable.

    Raises: CallError when the endpoint cannot be reached: that is an error, and not a reason for other words.
    """
    run = store.run(run_id)
    known = store.descriptions(run_id)
    asked = [d for d in known if d["id"] not in FIXED]
    call = f"{run_id}-descriptions-{store.fact(run_id, 'clustering')}"
    ask = asker(calling.client_for(run, store), run.reflector, "descriptions", describing.SCHEMA, call)
    try:
        found = describing.describe(ask, asked, calling.prompt_logger(store, run_id, "clusters_describe"))
    except (MissingKeyError, NoRuleError) as error:
        return {"by": "rules", "why": str(error)}
    if isinstance(found, Invalid):
        return {"by": "rules", "why": found.reason}
    return {"by": "model", "descriptions": [d | {"description": found.get(d["id"], d["description"])} for d in known]}


@shared_task(name="openai.describe")
def describe_task(run: RunId) -> None:
    """Leave what the reflector says of the run's clusters as the run's fact `FACT`, as JSON."""
    store = context.store_of(run)
    store.put_fact(run, FACT, json.dumps(describe_clusters(store, run), ensure_ascii=False))
    store.wake(run)
