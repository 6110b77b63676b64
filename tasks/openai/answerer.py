"""Who answered a call: a language model, or the rules of the embedded endpoint, told by its system fingerprint.

What a setting names is only what was asked for.  An address may belong to the rules, and then every report says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

RULES_FINGERPRINT = "whetstone-rules"  # the embedded endpoint's fingerprints begin with it
NO_RULE = "no_rule"  # the code of its error for a question that no rule answers
RULES = "rules of the embedded endpoint (no language model)"
NOBODY = "nobody: no call was needed, or none was answered"

Role = Literal["reflector", "judge"]


def answerer(system_fingerprint: str, model: str) -> str:
    """Who wrote a reply with this fingerprint, when `model` was asked."""
    return RULES if system_fingerprint.startswith(RULES_FINGERPRINT) else model


def listed(names: Iterable[str]) -> str:
    """Those who answered, as a report names them."""
    return " and ".join(sorted(names)) or NOBODY
