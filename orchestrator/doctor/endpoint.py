"""Check of the OpenAI-compatible endpoint: it answers, and takes the key.  Listing its models costs nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx

from orchestrator.doctor.finding import Finding, well, wrong
from orchestrator.settings import Settings
from tasks.redis_url import redacted
from tasks.secret import secret

OPENAI = "https://api.openai.com/v1"
PATIENCE_S = 10.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def check_endpoints(reports: Sequence[Mapping[str, Any]], settings: Settings | None) -> Iterator[Finding]:
    """A line for each address that an openai worker would call, as far as it can be reached from here."""
    key_name = settings.openai_api_key_env if settings else "OPENAI_API_KEY"
    seen: set[str] = set()
    for report in reports:
        if (endpoint := report.get("endpoint")) is None:
            continue
        address = (settings and settings.openai_base_url) or endpoint["base_url"] or OPENAI
        if not endpoint["key"]:
            yield wrong(f"key of {report['worker']}", f"none, for {redacted(address)}",
                        f"set {key_name} or {key_name}_FILE in the worker's environment")  # fmt: skip
            continue
        yield well(f"key of {report['worker']}", f"there is one, for {redacted(address)}")
        is_here = report["host"] == socket.gethostname() or urlsplit(address).hostname not in LOOPBACK
        if is_here and address not in seen:
            seen.add(address)
            yield check_endpoint(address, secret(key_name))


def check_endpoint(address: str, key: str) -> Finding:
    """Whether the endpoint lists its models; `key` is ours, or "" where only the workers have one."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        status = httpx.get(f"{address.rstrip('/')}/models", headers=headers, timeout=PATIENCE_S).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        said = f"{redacted(address)} does not answer: {type(error).__name__} {error}".rstrip()
        return wrong("endpoint", said, "see the address (CONFIG_OPENAI_BASE_URL, OPENAI_BASE_URL), and the network")
    if status in (401, 403) and key:
        return wrong("endpoint", f"{redacted(address)} refuses the key (HTTP {status})", "set a key that it takes")
    if status >= 500:
        return wrong("endpoint", f"{redacted(address)} answers HTTP {status}", "wait, or ask whoever runs it")
    return well("endpoint", f"{redacted(address)} answers")
