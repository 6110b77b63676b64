"""`python -m workers.healthy NAME`: exit 0 when the worker of this name on this host takes messages, for containers.

It asks the worker's own report (`workers/report.py`), which is gone within seconds when the worker's loop stands still.
"""

from __future__ import annotations

import os
import socket
import sys

import redis

from tasks.redis_url import redis_url_of, store_url
from tasks.roster import Roster

PATIENCE_S = 3.0


def main() -> None:
    node = f"{sys.argv[1]}@{socket.gethostname()}"
    try:
        client = redis.Redis.from_url(
            store_url(redis_url_of(os.environ)), socket_timeout=PATIENCE_S, socket_connect_timeout=PATIENCE_S
        )
        found = Roster(client).told_lately(node)
    except (redis.RedisError, OSError, ValueError) as error:
        sys.exit(f"{node}: {error}")
    sys.exit(0 if found else f"{node} has told nothing lately")


if __name__ == "__main__":
    main()
