"""Every message of the application carries the readable line, whoever sends it."""

from __future__ import annotations

import json

from tasks.store.address import queues_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.app import create_app

STAGE = ["demo", "g2_child", 3, "mut", 1]


def test_a_message_tells_where_it_belongs(valkey_url: str, store: Store) -> None:
    app = create_app({"WHETSTONE_REDIS_URL": valkey_url})
    with app:
        app.send_task("openai.reflect", args=STAGE)
        app.signature("openai.reflect", args=STAGE, argsrepr="something else").apply_async()
    broker = connect(queues_url(valkey_url))
    messages = [json.loads(text) for text in broker.lrange("openai", 0, -1)]
    assert len(messages) == 2
    for message in messages:
        assert message["headers"]["argsrepr"] == "run=demo generation=2 child=3 phase=mut attempt=1"
        assert message["headers"]["kwargsrepr"] == ""
