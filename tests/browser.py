"""Pages in a headless Chromium: those of Flower, and those that are a file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

TIMEOUT_MS = 300_000


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
            page = browser.new_page(**{"viewport": {"width": 1440, "height": 800}, **options})
            page.set_default_timeout(TIMEOUT_MS)
            yield page
        finally:
            browser.close()
