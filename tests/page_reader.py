"""A page of `orchestrator report` as it is in its file: the elements, the tables, and the script's data."""

from __future__ import annotations

import datetime
import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from orchestrator.report.page import render_page
from orchestrator.results import RunResults

NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


class ReadPage(HTMLParser):
    """elements: each with its attributes; texts: (the element before it, text), both in their order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.elements[-1][0] if self.elements else "", data))

    @property
    def seen(self) -> str:
        return " ".join(text for tag, text in self.texts if tag not in ("script", "style"))

    @property
    def data(self) -> Any:
        """By run, what the script draws."""
        return json.loads(next(text for tag, text in self.texts if tag == "script"))

    @property
    def systems(self) -> dict[str, dict[str, list[str]]]:
        """By set of questions and by system, the figures of its row."""
        tables = re.findall(r'data-tab="(\w+)"><div class="chart">.*?<tbody>(.*?)</tbody>', self.html, re.DOTALL)
        return {which: dict(map(_row, rows.split("</tr>")[:-1])) for which, rows in tables}


def _row(row: str) -> tuple[str, list[str]]:
    [name] = re.findall(r'data-system="([^"]*)"', row)
    return unescape(name), re.findall('<td class="num">(.*?)</td>', row)


def page_of(*folders: Path) -> ReadPage:
    """The page of these runs."""
    return ReadPage(render_page([RunResults.open(folder) for folder in folders], NOW))
