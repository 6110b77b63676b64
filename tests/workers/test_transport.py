"""A message on a channel that was closed under its sender, as when the broker dies between two messages."""

from __future__ import annotations

import pytest

from orchestrator.dispatch.producer import make_sender
from tasks.store.store import Store


def test_a_closed_channel_says_so_in_a_way_that_a_sender_tries_again_for(store: Store, valkey_url: str) -> None:
    with make_sender(valkey_url) as app, app.connection_for_write() as connection:
        channel = connection.channel()
        message = channel.prepare_message("{}")
        channel.close()
        with pytest.raises(connection.recoverable_connection_errors, match="closed"):
            channel.basic_publish(message, exchange="cpu", routing_key="cpu")
