"""The page loads nothing and executes nothing but its own script, whatever the texts of a run hold."""

from __future__ import annotations

import base64
import datetime
import hashlib
from pathlib import Path

from hostile_texts import HOSTILE, with_hostile_texts
from page_reader import ReadPage, records

from orchestrator.page.html import page_data, public, render_page
from orchestrator.results import RunResults

NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


def test_hostile_texts_stay_texts(finished_run: Path, tmp_path: Path) -> None:
    hostile = with_hostile_texts(finished_run, tmp_path / "run")
    html = render_page(page_data([RunResults.open(hostile)]), NOW)
    page = ReadPage.of(html)
    # Then the page has the elements that its template has, and no other
    assert [tag for tag, _ in page.elements if tag in ("script", "img", "style")] == ["style", "script", "script"]
    assert html.count("<script") == html.count("</script") == 2 and "<!--" not in html
    # And the texts are there as they were
    [run] = page.runs
    assert all(row["before"] == row["reason_after"] == HOSTILE for one in run["answers"] for row in records(one))
    assert run["digest"]["verdict"] == HOSTILE
    assert page.long_text(records(run["individuals"])[0]["scratchpad"]) == HOSTILE


def test_the_policy_allows_the_page_s_own_style_and_script_alone(finished_run: Path) -> None:
    page = ReadPage.of(render_page(page_data([RunResults.open(finished_run)]), NOW))
    [policy] = [a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    own = {tag: text for tag, text in page.texts if tag in ("style", "script")}
    for tag, text in own.items():
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in (policy or "")
    assert (policy or "").startswith("default-src 'none';") and "unsafe" not in (policy or "")
    assert "connect-src" not in (policy or "")
    loaded = [a for _, a in page.elements if any(name in a for name in ("src", "srcset", "action", "data"))]
    assert loaded == [] and not any(tag in ("link", "iframe", "object", "form", "base") for tag, _ in page.elements)
    links = [attributes["href"] for _, attributes in page.elements if "href" in attributes]
    assert links == ["#answer"]


def test_passwords_in_settings_are_not_shown() -> None:
    assert public("redis://user:secret@host:6379/0") == "redis://user:***@host:6379/0"
    assert public("--api-key abc --tp 2 --admin-key=xyz") == "--api-key *** --tp 2 --admin-key=***"
    assert public("Context:\\n{context}") == "Context:\\n{context}"
