"""Pages in a headless Chromium: those of Flower, and those that are a file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

TIMEOUT_MS = 300_000


def chromium() -> str | None:
    """The path of an installed Chromium, if there is one."""
    return os.environ.get("WHETSTONE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")


@contextmanager
def browser_page(**options: Any) -> Iterator[Any]:
    """A page of a new browser; `options` are those of its context.  Skips the test when no browser is installed."""
    driver = pytest.importorskip("playwright.sync_api", reason="pip install '.[browser]' (CONTRIBUTING.md)")
    found = chromium()
    if found is None:
        pytest.skip("no Chromium here: apt-get install chromium (CONTRIBUTING.md)")
    with driver.sync_playwright() as playwright:
        # Chromium's own sandbox does not work for root, and the only pages here are ours.
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            page = browser.new_page(**{"viewport": {"width": 1440, "height": 800}, **options})
            page.set_default_timeout(TIMEOUT_MS)
            yield page
        finally:
            browser.close()


@contextmanager
def browsing(url: str, user: str, password: str) -> Iterator[Any]:
    """A page that is logged in at `url`."""
    with browser_page(base_url=url, http_credentials={"username": user, "password": password}) as page:
        yield page


def picture(page: Any, name: str, folder: Path, **options: Any) -> None:
    """Save a screenshot as a PNG, in the folder of WHETSTONE_PICTURES when it is set."""
    kept = Path(os.environ.get("WHETSTONE_PICTURES") or folder)
    page.screenshot(path=kept / f"{name}.png", **options)
