"""Replies by rules, in place of a language model: one for each schema that the project asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from workers.embedded.rules import compression, guide, reflector, verdict

# (system message, user message) -> the reply; depends on nothing else.
# Raises: ValueError for a prompt of another form.
Rule = Callable[[str, str], dict[str, Any]]

RULES: Mapping[str, Rule] = {
    "mutation": reflector.mutate,
    "rewrite": reflector.rewrite,
    "merge": reflector.merge,
    "verdict": verdict.answer,
    "compression": compression.answer,
    "critique": guide.critique,
    "proposal": guide.propose,
}
"""By the name of the schema."""
