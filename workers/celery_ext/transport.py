"""The broker's messages as they come off the wire: what is no message at all hurts nobody.

kombu takes for granted that what lies in a queue was put there by kombu: one line of anything else ends the worker
that reads it.  Here it is refused with one line.  It has left the queue when it is read, and so it does not come back.
"""

from __future__ import annotations

import base64
import binascii
from queue import Empty
from typing import Any

import kombu.transport
from celery.utils.log import get_logger
from kombu.transport import redis
from redis.exceptions import ConnectionError

from tasks.escape import quote

logger = get_logger(__name__)


class Channel(redis.Channel):
    """kombu's, but for a line that cannot be read, and for a message on a channel that has been closed."""

    connection: Any  # a Transport
    connection_errors: tuple[type[Exception], ...]

    def _brpop_read(self, **options: Any) -> Any:
        delivered = self.connection.delivered
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]  # the stubs do not know it
        except Exception as error:
            read = self.connection.delivered > delivered  # and it is whoever takes it that has failed
            if read or isinstance(error, (*self.connection_errors, Empty)):
                raise
            logger.error("refused a message: it is not JSON as Celery writes it: %s", quote(str(error)))
            return True

    def basic_publish(self, *args: Any, **options: Any) -> Any:
        # When the broker dies while a queue is declared, kombu connects anew for the queue, and then publishes on the
        # old channel.  That it is closed has to be an error for which a sender tries again.
        if self.connection is None:
            raise ConnectionError("the channel was closed")
        return super().basic_publish(*args, **options)


class Transport(redis.Transport):
    """kombu's Redis, which delivers only what is a message."""

    Channel = Channel
    delivered = 0

    def _deliver(self, message: Any, queue: str | None) -> None:
        self.delivered += 1
        if reason := not_a_message(message):
            logger.error("refused a message on the queue %s: %s", queue, reason)
        else:
            super()._deliver(message, queue)


def not_a_message(message: Any) -> str | None:
    """Why this is nothing that kombu could take, acknowledge and give back; None when it is."""
    if not isinstance(message, dict):
        return f"it is {quote(message)}, not an object"
    properties, headers = message.get("properties"), message.get("headers")
    if not isinstance(properties, dict) or not isinstance(headers, dict | None):
        return "it has no properties, or headers that are no object"
    if headers and headers.get("compression"):
        return "it is compressed, which we never do"
    info, tag = properties.get("delivery_info"), properties.get("delivery_tag")
    if not isinstance(tag, str) or not tag:
        return f"its delivery tag is {quote(tag)}"
    if not isinstance(info, dict) or not all(isinstance(info.get(key), str) for key in ("exchange", "routing_key")):
        return "it does not say by which exchange and routing key it came"
    return _unreadable_body(message.get("body"), properties.get("body_encoding"))


def _unreadable_body(body: Any, encoding: Any) -> str | None:
    if not isinstance(body, str) or encoding not in ("base64", None):
        return f"its body is {quote(body)} in the encoding {quote(encoding)}"
    try:
        base64.b64decode(body if encoding else "")
    except (binascii.Error, ValueError) as error:
        return f"its body is not base64: {error}"
    return None


def register() -> None:
    """From now on the addresses of a Redis mean this transport, in this process."""
    name = f"{Transport.__module__}:{Transport.__qualname__}"
    kombu.transport.TRANSPORT_ALIASES.update(redis=name, rediss=name)
