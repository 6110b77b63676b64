"""Secrets of the environment: the variable itself or, as Docker and Kubernetes hand them out, a file.

`secret("OPENAI_API_KEY")` is what OPENAI_API_KEY holds, or else what the file named by OPENAI_API_KEY_FILE holds.  The
file is read each time, so a key can be changed under a running worker, and its text never enters the environment,
which child processes inherit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


class SecretError(ValueError):
    """The file of a secret cannot be read; says in one line which one, and never what it holds."""


def secret(name: str, environment: Mapping[str, str] | None = None) -> str:
    """The secret called `name`, without the space around it; "" where there is none.  Raises: SecretError."""
    environment = os.environ if environment is None else environment
    if environment.get(name):
        return environment[name].strip()
    path = environment.get(f"{name}_FILE")
    if not path:
        return ""
    try:
        return Path(path).read_text("utf-8").strip()
    except UnicodeDecodeError:
        raise SecretError(f"{name}_FILE: {path} is not UTF-8 text") from None
    except OSError as error:
        raise SecretError(f"{name}_FILE: {path} cannot be read: {error.strerror or error}") from None
