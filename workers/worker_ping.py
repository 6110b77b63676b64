"""Whether workers are there: a worker that answers a ping has its consumer running and takes tasks."""

from __future__ import annotations

from collections.abc import Sequence

from celery import Celery
from kombu.exceptions import OperationalError

from tasks.redis_url import broker_url

PING_S = 0.25


def missing_workers(redis_url: str, names: Sequence[str]) -> list[str]:
    """Those of `names` (the part of a node name before the @) that do not answer a ping in time."""
    with Celery("ping", broker=broker_url(redis_url), set_as_current=False) as app:
        try:
            replies = app.control.ping(
                timeout=PING_S, limit=len(names), pattern=f"^({'|'.join(names)})@", matcher="pcre"
            )
        except OperationalError:
            return list(names)
    answered = {node.partition("@")[0] for reply in replies or [] for node in reply}
    return [name for name in names if name not in answered]


def worker_answers(redis_url: str, name: str) -> bool:
    """Whether this one does."""
    return not missing_workers(redis_url, [name])
