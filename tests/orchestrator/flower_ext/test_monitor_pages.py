"""Our additions to Flower's pages find their places, and say so when they do not."""

from __future__ import annotations

import pytest

from orchestrator.flower_ext.handlers import ADDITIONS, FLOWERS, Pages


def test_the_additions_fit_the_flower_that_is_installed() -> None:
    pages = Pages()
    assert set(ADDITIONS) <= set(pages.templates)


def test_another_flower_is_refused_by_name(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ADDITIONS, "task.html", ("a place that no Flower has", "retry.html"))
    with pytest.raises(LookupError, match=r"task\.html"):
        Pages()


def test_every_page_of_flower_can_still_be_made() -> None:
    pages = Pages()
    for page in FLOWERS.glob("*.html"):
        pages.load(page.name)
