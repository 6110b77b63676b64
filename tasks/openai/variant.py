"""The same question to the reflector for several candidates: the prompt says so, so that the proposals differ."""

from __future__ import annotations

import dataclasses
import re

from tasks.records import Reflector

NOTE = """\

This question has been put {count} time(s) before in this round, for others with the same deltas. Do not give the \
answer that comes to mind first: choose another direction or another size of step than the obvious one.
"""
_COUNT = re.compile(r"This question has been put (\d+) time\(s\) before in this round")


def as_variant(messages: tuple[str, str], variant: int) -> tuple[str, str]:
    """The messages for a candidate before which `variant` others get the same question; unchanged for the first."""
    system, user = messages
    return (system, user + NOTE.replace("{count}", str(variant))) if variant else messages


def variant_of(user: str) -> int:
    """How often a user message says that its question was put before; 0 where it does not.

    Only what follows the last line of dashes is read: the texts before it are untrusted.
    """
    found = _COUNT.search(user.rpartition("\n---\n")[2])
    return int(found[1]) if found else 0


def reflector_of(reflector: Reflector, variant: int) -> Reflector:
    """The reflector with a seed of its own for each variant; without one it has none for any."""
    return reflector if reflector.seed is None else dataclasses.replace(reflector, seed=reflector.seed + variant)
