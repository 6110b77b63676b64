"""The one place that makes a client of Redis or Valkey: timeouts, health checks, and waiting for one that refuses."""

from __future__ import annotations

import redis

from tasks.store.waiting import Waiting, wait_limit_of

TIMEOUT_S = 15.0  # more than a server needs for any command of ours
CONNECT_TIMEOUT_S = 5.0
HEALTH_CHECK_S = 15


def connect(url: str, waiting: Waiting | None = None, timeout_s: float | None = None) -> redis.Redis:
    """A client of the server at `url` (see tasks/store/address.py), which connects with its first command.

    `waiting`: what it does when the server refuses or does not answer; by default it waits as long as the environment
    says, so a client outlives a restart of the server.  `timeout_s`: how long a connection or a reply may take; None
    is the usual.  A connection that was idle for `HEALTH_CHECK_S` seconds is checked before it is used.
    """
    return redis.Redis.from_url(
        url,
        retry=waiting or Waiting(wait_limit_of()),
        health_check_interval=HEALTH_CHECK_S,
        socket_timeout=TIMEOUT_S if timeout_s is None else timeout_s,
        socket_connect_timeout=CONNECT_TIMEOUT_S if timeout_s is None else timeout_s,
    )
