"""Writes the digests of all base images into the Dockerfiles and the compose file: `make pin`.  It needs a network.

A tag names another image tomorrow; `NAME:TAG@sha256:...` names the same one for ever.  The digest is that of the list
of all platforms, so it fits each of them.  Run it again to take a newer image of the same tags.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[1]
FILES = ("docker-compose.yml", *(f"ops/{image}/Dockerfile" for image in ("farm", "flower", "gpu", "valkey")))
IMAGE = re.compile(
    r"(?P<name>python|valkey/valkey|lmsysorg/sglang|prom/prometheus|grafana/grafana):(?P<tag>[\w.-]+)"
    r"(?:@sha256:[0-9a-f]{64})?"
)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
REGISTRY, TOKENS = "https://registry-1.docker.io", "https://auth.docker.io/token?service=registry.docker.io"
LISTS = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json"
TIMEOUT_S = 30.0


def digest_of(client: httpx.Client, name: str, tag: str, registry: str = REGISTRY, tokens: str = TOKENS) -> str:
    """The digest of the list of images that a tag names now.  Raises: httpx.HTTPError, ValueError."""
    repository = name if "/" in name else f"library/{name}"
    token = client.get(f"{tokens}&scope=repository:{repository}:pull").raise_for_status().json()["token"]
    headers = {"Authorization": f"Bearer {token}", "Accept": LISTS}
    reply = client.head(f"{registry}/v2/{repository}/manifests/{tag}", headers=headers).raise_for_status()
    digest = reply.headers.get("Docker-Content-Digest", "")
    if not DIGEST.fullmatch(digest):
        raise ValueError(f"the registry gives no digest of {name}:{tag}")
    return str(digest)


def images(text: str) -> set[tuple[str, str]]:
    """The base images that a file names: name and tag."""
    return {(found["name"], found["tag"]) for found in IMAGE.finditer(text)}


def pinned(text: str, digests: dict[tuple[str, str], str]) -> str:
    """The text with the digest of each image, in place of an earlier one."""
    return IMAGE.sub(lambda found: f"{found['name']}:{found['tag']}@{digests[found['name'], found['tag']]}", text)


def main() -> None:
    texts = {ROOT / path: (ROOT / path).read_text("utf-8") for path in FILES}
    digests = {}
    with httpx.Client(timeout=TIMEOUT_S) as client:
        for name, tag in sorted(set().union(*map(images, texts.values()))):
            try:
                digests[name, tag] = digest_of(client, name, tag)
            except (httpx.HTTPError, ValueError, KeyError) as error:
                sys.exit(f"make pin: {name}:{tag}: {error}; nothing was changed")
            print(f"{name}:{tag}@{digests[name, tag]}")
    for path, text in texts.items():
        path.write_text(pinned(text, digests), encoding="utf-8")


if __name__ == "__main__":
    main()
