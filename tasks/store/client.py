"""The one place that makes a client of Redis or Valkey: timeouts, retries and health checks."""

from __future__ import annotations

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

RETRIES = 20  # with the pauses between them about a quarter of a minute
CONNECT_TIMEOUT_S = 5.0
HEALTH_CHECK_S = 15


def connect(url: str, retries: int = RETRIES, timeout_s: float | None = None) -> redis.Redis:
    """A client of the server at `url` (see tasks/store/address.py), which connects with its first command.

    `retries`: how often a command is sent again after a lost connection, a timeout, or while the server loads its data;
    with the default a client outlives a restart of the server.  `timeout_s`: how long a connection or a reply may take;
    None waits for a reply as long as the server is connected, and `CONNECT_TIMEOUT_S` for a connection.  A connection
    that was idle for `HEALTH_CHECK_S` seconds is checked before it is used.
    Raises: ValueError for an address that is none.
    """
    return redis.Redis.from_url(
        url,
        retry=Retry(ExponentialBackoff(cap=1.0, base=0.05), retries=retries),
        retry_on_error=[redis.ConnectionError, redis.TimeoutError, redis.exceptions.BusyLoadingError],
        health_check_interval=HEALTH_CHECK_S,
        socket_timeout=timeout_s,
        socket_connect_timeout=CONNECT_TIMEOUT_S if timeout_s is None else timeout_s,
    )
