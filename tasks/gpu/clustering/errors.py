"""What can go wrong while a vocabulary is clustered, in words that a person can act on."""

from __future__ import annotations

import os
from pathlib import Path


class ClusteringError(Exception):
    """The vocabulary could not be clustered, or a finished clustering could not be read. The message is one line."""


def cannot_load(what: str, name: str | Path, error: Exception) -> ClusteringError:
    """That a model, given by folder or by Hugging Face id, is not to be had, and why, in one line."""
    path = Path(name)
    if (path.is_absolute() or str(name).startswith((".", "~"))) and not path.is_dir():
        return ClusteringError(f'the {what} "{name}" cannot be loaded: there is no such folder')
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return ClusteringError(f'the {what} "{os.fspath(name)}" cannot be loaded: {first}')
