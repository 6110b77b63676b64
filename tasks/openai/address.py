"""Where an endpoint is, and the name under which its answers are kept."""

from __future__ import annotations

import os

from tasks.run import Endpoint

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
