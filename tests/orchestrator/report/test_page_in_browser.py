"""A page in a real browser: it fits the screen, what is chosen is shown, and it runs no script of others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browser import browser_page, picture
from hostile_texts import HOSTILE, with_hostile_texts
from page_reader import page_of

pytestmark = pytest.mark.long


@contextmanager
def opened(path: Path, *runs: Path, **options: Any) -> Iterator[Any]:
    """The page of these runs in a browser, which has found no fault in it and has asked for nothing but the page."""
    path.write_text(page_of(*runs).html)
    faults: list[str] = []
    asked: list[str] = []
    with browser_page(**options) as page:
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        page.locator("nav a").first.wait_for()
        yield page
    assert (faults, asked) == ([], [path.as_uri()])


def test_hostile_texts_are_shown_and_not_run(finished_run: Path, tmp_path: Path) -> None:
    folder = with_hostile_texts(finished_run, tmp_path / "run")
    with opened(tmp_path / "page.html", folder) as page:
        assert page.locator("h1").inner_text() == HOSTILE
        assert page.locator("#answers-0 .side .text").first.text_content() == HOSTILE
        assert page.locator("#search-0 .node pre").first.text_content() == HOSTILE
        assert page.evaluate("[window.hacked, document.images.length, document.scripts.length]") == [None, 0, 2]


def test_what_is_chosen_and_searched_for_is_shown(finished_run: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "page.html", finished_run) as page:
        # A system of the table, also by its mark in the chart
        page.locator("#systems-0 tr[data-system=plain] button").first.click()
        panel = page.locator("#systems-0 .panel:visible")
        assert panel.count() == 1 and "--system plain --to sglang" in panel.inner_text()
        page.locator("#systems-0 .chart:visible .k-winner").click()
        assert "the winner" in panel.inner_text()
        # An evaluation of the search
        name = page.locator("#search-0 .node .link").first.inner_text()
        page.locator("#search-0 .node .link").first.click()
        assert page.locator("#search-0 .node h3").inner_text() == name
        # The answers to a question
        asked = page.locator("#answers-0 [data-tab]:visible")
        question = asked.locator(".id, code").nth(2).inner_text()
        asked.locator("input").fill(question)
        assert asked.locator("article:visible code").all_inner_texts() == [question]


@pytest.mark.parametrize("width", [400, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_the_screen_in_both_themes(finished_run: Path, tmp_path: Path, width: int, scheme: str) -> None:
    options: dict[str, Any] = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with opened(tmp_path / "page.html", finished_run, finished_run, **options) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == width
        light = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every((part) => part > 127)"
        assert page.evaluate(light) == (scheme == "light")
        picture(page, f"report_{width}_{scheme}", tmp_path, full_page=True)
        page.locator(".theme").click()
        assert page.evaluate(light) == (scheme == "dark")
        # Several runs can each be looked at
        page.locator("main > section .segments button").nth(1).click()
        assert page.locator(".run:visible").get_attribute("data-tab") == "1"
