"""A page in a real browser: it fits the screen, is used by keyboard, follows its run, and runs no script of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser import picture
from hostile_texts import HOSTILE, with_hostile_texts
from seen_page import opened

pytestmark = pytest.mark.long


def test_hostile_texts_are_shown_and_not_run(finished_run: Path, tmp_path: Path) -> None:
    folder = with_hostile_texts(finished_run, tmp_path / "run")
    with opened(tmp_path / "page.html", folder) as page:
        assert page.locator("h1").inner_text() == HOSTILE
        assert page.locator("#answers .side .text").first.text_content() == HOSTILE
        page.locator("#lineage .node pre").first.wait_for()
        assert page.locator("#lineage .node pre").first.text_content() == HOSTILE
        assert page.evaluate("[window.hacked, document.images.length, document.scripts.length]") == [None, 0, 2]


@pytest.mark.parametrize("width", [400, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_the_screen_in_both_themes(finished_run: Path, tmp_path: Path, width: int, scheme: str) -> None:
    options: dict[str, Any] = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with opened(tmp_path / "page.html", finished_run, finished_run, **options) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == width
        light = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every((part) => part > 127)"
        assert page.evaluate(light) == (scheme == "light")
        picture(page, f"report_{width}_{scheme}", tmp_path, full_page=True)
        page.locator("button.icon").click()
        assert page.evaluate(light) == (scheme == "dark")
        # Several runs: their figures stand side by side, and each can be looked at
        assert page.locator("#compare thead th").count() == 2
        page.locator(".runs button").nth(1).click()
        assert page.locator(".runs button").nth(1).get_attribute("aria-pressed") == "true"
