"""A page in a real browser: it fits the screen, is used by keyboard, follows its run, and runs no script of others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from browser import browser_page, picture
from flower_process import PASSWORD, USER, Flower
from hostile_texts import HOSTILE, with_hostile_texts
from seen_page import ARROW, opened

from orchestrator.results import RunResults

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


def test_what_is_chosen_by_keyboard_keeps_the_focus(finished_run: Path, tmp_path: Path) -> None:
    focused = "document.activeElement.textContent"
    with opened(tmp_path / "page.html", finished_run, reduced_motion="reduce") as page:
        for part, name in (("systems", "validation"), ("lineage", "right answers"), ("answers", "changed")):
            page.locator(f"#{part} .segments button", has_text=name).press("Enter")
            assert name in page.evaluate(focused)
            assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
        # Another evaluation in the panel: the focus stays in it
        page.locator("#lineage .links button").first.press("Enter")
        assert "node" in page.evaluate("document.activeElement.className")
        # What is wider than its place can be scrolled by keyboard
        assert page.locator(".scroll:not([tabindex='0'])").count() == 0
        # Where the page is does not change when a part of it is drawn anew
        page.locator("#lineage .segments button", has_text="fitness").focus()
        before = page.evaluate("scrollY")
        page.keyboard.press("Enter")
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.evaluate("scrollY") == before > 0


def test_long_answers_scroll_in_a_box_and_texts_have_their_own_direction(finished_run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished_run, tmp_path / "run")
    answers = json.loads((folder / "answers.json").read_text())
    test = next(one for one in answers if one["name"].startswith("test"))
    test["before"][0]["text"], test["after"][0]["text"] = "very long " * 5000, "מה היה הרווח"
    (folder / "answers.json").write_text(json.dumps(answers))
    with opened(tmp_path / "page.html", folder, viewport={"width": 400, "height": 900}) as page:
        card = page.locator("#answers .question").first
        assert card.bounding_box()["height"] < 900
        assert page.evaluate("document.documentElement.scrollWidth") == 400
        box = card.locator(".text").first
        box.press("End")
        box.evaluate("one => new Promise(done => one.scrollTop ? done() : one.addEventListener('scroll', done))")
        direction = card.locator(".text").nth(1).evaluate("one => getComputedStyle(one).unicodeBidi")
        assert direction == "plaintext"


def test_the_page_in_flower_follows_its_run(valkey_url: str, finished_run: Path, tmp_path: Path) -> None:
    # Given a run of two generations, of which one is recorded
    folder = shutil.copytree(finished_run, tmp_path / "outputs" / "run")
    later = {name: (folder / name).read_bytes() for name in ("answers.json", "report.json", "history.jsonl")}
    (folder / "history.jsonl").write_bytes(later["history.jsonl"].split(b"\n")[0] + b"\n")
    for name in ("answers.json", "report.json"):
        (folder / name).unlink()
    run = RunResults.open(folder).run
    flower = Flower(valkey_url, tmp_path, tmp_path / "outputs")
    try:
        with browser_page(base_url=flower.url, http_credentials={"username": USER, "password": PASSWORD}) as page:
            page.goto("/runs")
            page.locator(f"tr[data-run='{run}'] a.run-page").click()
            assert "1 of 2 generations done" in page.locator("h1").inner_text()
            page.evaluate("window.same = true")
            # and someone reads it: a part is open, a search is half typed
            page.locator("#settings summary").first.click()
            page.locator("#settings input").press_sequentially("SE")
            # When the other one is recorded, and the run ends
            for name, content in later.items():
                (folder / name).write_bytes(content)
            # Then the page shows it, without being loaded anew
            verdict = json.loads(later["report.json"])["verdict"].replace(" -> ", ARROW)
            page.locator("h1", has_text=verdict).wait_for(timeout=60_000)
            assert page.evaluate("window.same") and page.locator("#answers .question").count() == 8
            # nor anything lost of what the reader did: the next key goes on in the same place
            assert page.locator("#settings summary").first.locator("..").get_attribute("open") is not None
            page.keyboard.type("ED")
            assert page.locator("#settings input").input_value() == "SEED"
            assert page.locator("#settings table th").all_inner_texts().count("SEED") == 1
    finally:
        flower.stop()
