"""Where an endpoint is, and the name under which its answers are kept.

Who answered a call: a language model, or the rules of the embedded endpoint, told by its system fingerprint.

What a setting names is only what was asked for.  An address may belong to the rules, and then every report says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Literal

from tasks.models import Endpoint

DEFAULT_BASE_URL = "https://api.openai.com/v1"
EMBEDDED = "embedded"
NAME_VARIABLE = "WHETSTONE_ENDPOINT"
"""What the endpoint at OPENAI_BASE_URL is called, where that address is another at each start."""


def url_of(endpoint: Endpoint) -> str:
    """The address to call, with /v1 at its end."""
    return endpoint.base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL


def name_of(endpoint: Endpoint) -> str:
    """Who answers there, under a name that lasts: what one endpoint has said is no answer of another."""
    return (not endpoint.base_url and os.environ.get(NAME_VARIABLE)) or url_of(endpoint)


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
