"""A page in a real browser: it fits the screen, what is chosen is shown, and it runs no script of others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from page_reader import HOSTILE, page_of, with_hostile_texts

pytestmark = pytest.mark.long


@contextmanager
def browser_page(**options: Any) -> Iterator[Any]:
    """A page of a new browser; `options` are those of its context.  Skips the test when no browser is installed."""
    driver = pytest.importorskip("playwright.sync_api", reason="pip install '.[browser]' (CONTRIBUTING.md)")
    found = os.environ.get("WHETSTONE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium here: apt-get install chromium (CONTRIBUTING.md)")
    with driver.sync_playwright() as playwright:
        # Chromium's own sandbox does not work for root, and the only pages here are ours.
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            page = browser.new_page(**options)
            yield page
        finally:
            browser.close()


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
        assert page.locator("#answers-0 .side .text").first.text_content() == HOSTILE
        assert page.locator("#search-0 .node pre").first.text_content() == HOSTILE
        assert page.evaluate("[window.hacked, document.images.length, document.scripts.length]") == [None, 0, 2]


@pytest.mark.parametrize("width", [400, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_the_screen_in_both_themes_and_shows_what_is_chosen(
    finished_run: Path, tmp_path: Path, width: int, scheme: str
) -> None:
    options: dict[str, Any] = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with opened(tmp_path / "page.html", finished_run, finished_run, **options) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == width
        light = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every((part) => part > 127)"
        assert page.evaluate(light) == (scheme == "light")
        page.locator(".theme").click()
        assert page.evaluate(light) == (scheme == "dark")
        # The second of two runs, and a system of its table
        page.locator("main > section .segments button").nth(1).click()
        assert page.locator(".run:visible").get_attribute("data-tab") == "1"
        page.locator("#systems-1 tr[data-system=plain] button").first.click()
        assert "Nothing is added to any token" in page.locator("#systems-1 .panel:visible").inner_text()
