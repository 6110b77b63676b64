"""Secrets of the environment: the variable itself or, as Docker and Kubernetes hand them out, a file.

`secret("OPENAI_API_KEY")` is what OPENAI_API_KEY holds, or else what the file named by OPENAI_API_KEY_FILE holds.  The
file is read each time, so a key can be changed under a running worker, and its text never enters the environment,
which child processes inherit.

A process keeps the secrets that it has read, and `redact` removes them from log lines (tasks/logs.py) and from the
recorded failures of tasks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tasks.files import FileTooLarge, read_limited
from tasks.limits import SECRET_BYTES

SHORTEST = 9  # characters; a shorter text may be an ordinary word of a message
_registered: set[str] = set()


class SecretError(ValueError):
    """The file of a secret cannot be read.  The message names it in one line and never shows what it holds."""


def secret(name: str, environment: Mapping[str, str] | None = None) -> str:
    """The secret called `name`, without the space around it; "" where there is none."""
    environment = os.environ if environment is None else environment
    if environment.get(name):
        return register_secret(environment[name].strip())
    path = environment.get(f"{name}_FILE")
    if not path:
        return ""
    try:
        return register_secret(read_limited(Path(path), SECRET_BYTES, pipes=True).decode().strip())
    except UnicodeDecodeError:
        raise SecretError(f"{name}_FILE: {path} is not UTF-8 text") from None
    except FileTooLarge as error:
        raise SecretError(f"{name}_FILE: {path} holds no secret: {error}") from None
    except OSError as error:
        raise SecretError(f"{name}_FILE: {path} cannot be read: {error.strerror or error}") from None


def register_secret(text: str) -> str:
    """Have `redact` remove `text` from now on; returns `text`."""
    if len(text) >= SHORTEST:
        _registered.add(text)
    return text


def redact(text: str) -> str:
    """`text` without the registered secrets."""
    for one in sorted(_registered, key=len, reverse=True):  # a copy: threads may add, and one may hold another
        text = text.replace(one, "[secret]")
    return text
