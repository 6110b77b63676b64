"""`make pin` writes the digest that the registry names, behind each base image, and changes nothing else."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx
import pytest
from http_thread import http_server

ROOT = Path(__file__).parents[2]
PIN = runpy.run_path(str(ROOT / "ops" / "pin.py"))
DIGEST = "sha256:" + "ab" * 32


class Registry(BaseHTTPRequestHandler):
    """Gives a token for one repository, and the digest of its tag `9` to whoever has that token."""

    def do_GET(self) -> None:
        scope = self.path.partition("scope=repository:")[2]
        body = f'{{"token": "of {scope}"}}'.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self) -> None:
        known = self.path == "/v2/valkey/valkey/manifests/9"
        allowed = self.headers["Authorization"] == "Bearer of valkey/valkey:pull" and "index" in self.headers["Accept"]
        self.send_response(200 if known and allowed else 404)
        self.send_header("Docker-Content-Digest", DIGEST)
        self.end_headers()


@pytest.fixture
def registry() -> Iterator[str]:
    with http_server(Registry) as url:
        yield url


def test_the_digest_is_that_of_the_registry(registry: str) -> None:
    with httpx.Client(trust_env=False) as client:
        assert PIN["digest_of"](client, "valkey/valkey", "9", registry, f"{registry}/token?service=x") == DIGEST
        with pytest.raises(httpx.HTTPError):
            PIN["digest_of"](client, "python", "3.11", registry, f"{registry}/token?service=x")


def test_each_base_image_is_found_and_a_second_digest_replaces_the_first() -> None:
    texts = [(ROOT / path).read_text() for path in PIN["FILES"]]
    found = set().union(*map(PIN["images"], texts))
    assert {name for name, _ in found} == {
        "python",
        "valkey/valkey",
        "lmsysorg/sglang",
        "prom/prometheus",
        "grafana/grafana",
    }
    for text in texts:
        digests = dict.fromkeys(PIN["images"](text), DIGEST)
        once = PIN["pinned"](text, digests)
        assert PIN["pinned"](once, digests) == once
        assert once.replace(f"@{DIGEST}", "") == PIN["pinned"](text, digests).replace(f"@{DIGEST}", "")
        assert once.count(DIGEST) == len(PIN["IMAGE"].findall(text))
