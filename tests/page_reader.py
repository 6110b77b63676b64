"""A page of `orchestrator report` as it is in its file, and a run whose texts try to be markup."""

from __future__ import annotations

import datetime
import json
import re
import shutil
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from orchestrator.report.page import render_page
from orchestrator.results import RunResults

HOSTILE = "</script><script>window.hacked=1</script><!-- <img src=x onerror=window.hacked=2> & \u2028 ]]> \\u003c '\""
TEXTS = ("text", "question", "gold", "reasoning", "system_prompt", "scratchpad", "description")
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


def with_hostile_texts(run: Path, folder: Path) -> Path:
    """A copy of a finished run at `folder`, with hostile texts in all of its files."""
    shutil.copytree(run, folder)
    for name in ("answers.json", "systems.json", "clusters.json"):
        if (folder / name).exists():
            (folder / name).write_text(json.dumps(_hostile(json.loads((folder / name).read_text()))))
    if (individuals := folder / "individuals.jsonl").exists():
        lines = map(json.loads, individuals.read_text().splitlines())
        individuals.write_text("".join(json.dumps(_hostile(line)) + "\n" for line in lines))
    return folder


def _hostile(value: Any) -> Any:
    """The value with HOSTILE for each text of TEXTS, at any depth, and for each text with spaces in a list."""
    if isinstance(value, dict):
        return {name: HOSTILE if name in TEXTS else _hostile(one) for name, one in value.items()}
    if isinstance(value, list):
        return [HOSTILE if isinstance(one, str) and " " in one else _hostile(one) for one in value]
    return value
