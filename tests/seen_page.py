"""A page of `orchestrator report` in a browser, and its numbers as they are written there."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from browser import browser_page

from orchestrator.page.html import page_data, render_page
from orchestrator.results import RunResults

NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
ARROW = "\u00a0→\u00a0"  # of a sentence


@contextmanager
def opened(path: Path, *runs: Path, **options: Any) -> Iterator[Any]:
    """The page of these runs in a browser, which has found no fault in it and has asked for nothing but the page."""
    path.write_text(render_page(page_data([RunResults.open(run) for run in runs]), NOW))
    faults: list[str] = []
    asked: list[str] = []
    with browser_page(**options) as page:
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        page.locator("#settings").wait_for()
        yield page
    assert (faults, asked) == ([], [path.as_uri()])


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def number(value: float, digits: int = 0) -> str:
    """As the page writes it: with commas and a minus sign, and zero without a sign."""
    text = f"{value:,.{digits}f}".replace("-", "−")
    return text if re.search("[1-9]", text) else text.lstrip("−")


def signed(value: float, digits: int = 1) -> str:
    text = number(value, digits)
    return text if value < 0 or not re.search("[1-9]", text) else f"+{text}"


def percent(share: float, digits: int = 1) -> str:
    return f"{number(100 * share, digits)} %"


def interval(low: float, high: float) -> str:
    return f"{signed(100 * low)} to {signed(100 * high)}"


def plural(count: int, one: str) -> str:
    return f"{number(count)} {one if count == 1 else one + 's'}"


def duration(seconds: float) -> str:
    """Of less than an hour."""
    if seconds < 10:
        return f"{number(seconds, 1)} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def texts_of(locator: Any) -> list[str]:
    """The lines that are seen of one element."""
    return [line for line in locator.inner_text().split("\n") if line.strip()]


def tiles_of(page: Any) -> dict[str, list[str]]:
    tiles = [texts_of(tile) for tile in page.locator(".tile").all()]
    return {title: rest for title, *rest in tiles}


def rows_of(table: Any) -> list[list[str]]:
    """The cells of a table's body."""
    return [row.locator("th, td").all_inner_texts() for row in table.locator("tbody tr").all()]
