"""The page of the finished run in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from seen_page import opened


@pytest.fixture(scope="module")
def page(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The page of one run; each test leaves its own part of it as it likes."""
    with opened(tmp_path_factory.mktemp("page") / "page.html", finished_run) as opened_page:
        yield opened_page
