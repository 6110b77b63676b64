"""Messages carry a readable line, and a message on a closed channel is sent again."""

from __future__ import annotations

import json

import pytest

from orchestrator.farm.connection import make_sender
from tasks.store.address import queues_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.app import create_app

STAGE = ["demo", "g2_child", 3, "mut", 1]


def test_every_message_names_its_run_generation_and_child(valkey_url: str, store: Store) -> None:
    app = create_app({"WHETSTONE_REDIS_URL": valkey_url})
    with app:
        app.send_task("openai.reflect", args=STAGE)
        app.signature("openai.reflect", args=STAGE, argsrepr="something else").apply_async()
    broker = connect(queues_url(valkey_url))
    messages = [json.loads(text) for text in broker.lrange("openai", 0, -1)]
    assert len(messages) == 2
    for message in messages:
        assert message["headers"]["argsrepr"] == "run=demo generation=2 child=g2_child3_mut attempt=1"
        assert message["headers"]["kwargsrepr"] == ""


def test_a_closed_channel_raises_an_error_after_which_a_sender_tries_again(store: Store, valkey_url: str) -> None:
    with make_sender(valkey_url) as app, app.connection_for_write() as connection:
        channel = connection.channel()
        message = channel.prepare_message("{}")
        channel.close()
        with pytest.raises(connection.recoverable_connection_errors, match="closed"):
            channel.basic_publish(message, exchange="cpu", routing_key="cpu")
