"""How a clustering tells how far it is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called as `(stage, done, total)`, counts in tokens; stages: decode, embed, reduce, cluster, write."""


def silent(stage: str, done: int, total: int) -> None:
    """A `Progress` for those who do not want to know."""
