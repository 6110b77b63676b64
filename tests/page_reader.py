"""A page of `orchestrator report` as it is in its file: the elements, the data, and the packed texts."""

from __future__ import annotations

import base64
import json
import zlib
from bisect import bisect_right
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any


class _Elements(HTMLParser):
    """Each element with its attributes, in order, and what is in scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._open = tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open in ("script", "style", "title", "p"):
            self.texts.append((self._open, data))


@dataclass(frozen=True)
class ReadPage:
    elements: list[tuple[str, dict[str, str | None]]]
    texts: list[tuple[str, str]]

    @classmethod
    def of(cls, html: str) -> ReadPage:
        parser = _Elements()
        parser.feed(html)
        return cls(parser.found, parser.texts)

    @property
    def data(self) -> dict[str, Any]:
        first = next(text for tag, text in self.texts if tag == "script")
        found: dict[str, Any] = json.loads(first)
        return found

    @property
    def runs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.data["runs"]
        return found

    def long_text(self, number: int) -> str:
        """As `longText` of dom.js finds it."""
        texts = self.data["texts"]
        chunk = bisect_right(texts["starts"], number) - 1
        listed = json.loads(zlib.decompress(base64.b64decode(texts["chunks"][chunk]), -zlib.MAX_WBITS))
        return str(listed[number - texts["starts"][chunk]])


def records(table: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
