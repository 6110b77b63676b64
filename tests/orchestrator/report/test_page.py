"""The page in its file: it has the figures of the run, loads nothing, and no text of a run becomes markup."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from collected_folder import collected_folder
from measured_book import EVOLVED, write_reported
from page_reader import HOSTILE, ReadPage, page_of, with_hostile_texts

from orchestrator.report.page import public


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_reported(tmp_path_factory.mktemp("page") / "run")


@pytest.fixture(scope="module")
def page(folder: Path) -> ReadPage:
    return page_of(folder)


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


def test_each_system_has_its_figures_on_each_set_the_winner_first(page: ReadPage, folder: Path) -> None:
    systems = read(folder, "systems.json")["systems"]
    assert list(page.systems) == ["validation", "test", "ordering", "training"]
    for which, rows in page.systems.items():
        measured = {one["name"]: one[which] for one in systems if one[which] is not None}
        assert list(rows)[:2] == [EVOLVED, "plain"] and rows.keys() == measured.keys()
        for name, found in measured.items():
            tokens, count = fmean(found["tokens"]), len(found["tokens"])
            correct = sum(right and whole for right, whole in zip(found["right"], found["whole"], strict=True))
            shown = [f"{tokens:.1f}", str(sum(found["right"])), str(sum(found["whole"])), f"{correct} / {count}"]
            assert [rows[name][at] for at in (0, 2, 3, 4)] == shown
            assert rows[name][5] == f"{100 * correct / count:.1f} %"


def test_a_system_can_be_chosen_with_its_prompt_and_the_command_that_exports_it(page: ReadPage, folder: Path) -> None:
    for one in page.data[0]["systems"]:
        name = one["name"] if " " not in one["name"] else f"'{one['name']}'"
        engine = "sglang" if one["deltas"] else "sglang-server" if one["kind"] == "prompt" else ""
        assert one["command"] == (f"orchestrator export {folder} --system {name} --to {engine}" if engine else "")
        assert one["command"] in page.seen
    assert "Answer in one sentence." in page.seen and "cut at 24 tokens" in page.seen


def test_hostile_texts_stay_texts(folder: Path, tmp_path: Path) -> None:
    run = with_hostile_texts(folder, tmp_path / "run")
    measured = (run / "systems.json").read_text().replace(json.dumps(EVOLVED), json.dumps(HOSTILE))
    (run / "systems.json").write_text(measured)
    page = page_of(run)
    assert [tag for tag, _ in page.elements if tag in ("script", "img", "style")] == ["style", "script", "script"]
    assert page.html.count("<script") == page.html.count("</script") == 2 and "<!--" not in page.html
    assert page.data[0]["systems"][0]["system_prompt"] == HOSTILE
    assert page.seen.count(HOSTILE) > 400


def test_the_page_may_load_nothing_and_run_its_own_script_alone(page: ReadPage) -> None:
    [policy] = [a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    for tag, text in {tag: text for tag, text in page.texts if tag in ("style", "script")}.items():
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in str(policy)
    assert str(policy).startswith("default-src 'none';") and "unsafe" not in str(policy)
    loading = {"src", "srcset", "action", "data", "style"}
    assert not any(loading & attributes.keys() for _, attributes in page.elements)
    assert not any(tag in ("link", "iframe", "object", "form", "base") for tag, _ in page.elements)
    assert all(str(a["href"]).startswith("#") for _, a in page.elements if "href" in a)


def test_a_collection_has_its_pairs_and_its_wasted_tokens(tmp_path: Path) -> None:
    page = page_of(collected_folder(tmp_path))
    assert "2 of 3 compressed answers are correct, and 2 tokens" in page.seen
    pairs = [a["data-tags"] for _, a in page.elements if a.get("class") == "card question"]
    assert pairs == ["retained", "retained", "discarded"]
    assert "␣the" in page.seen and "↵" in page.seen and "20.000" in page.seen


@pytest.mark.parametrize("kind", ["evolve", "collect", "guide", "route"])
def test_a_run_of_any_kind_has_a_page_from_its_beginning(folder: Path, tmp_path: Path, kind: str) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"id": "young-1", "kind": kind, "folder": str(tmp_path)}))
    page = page_of(tmp_path)
    assert "young-1" in page.seen and "stopped: 0 of" in page.seen and page.systems == {}
    # and beside another run
    both = page_of(tmp_path, folder)
    assert len(both.data) == 2 and "young-1" in both.seen and "run-1" in both.seen


def test_passwords_in_settings_are_not_shown() -> None:
    assert public("redis://user:secret@host:6379/0") == "redis://user:***@host:6379/0"
    assert public("--api-key abc --tp 2 --admin-key=xyz") == "--api-key *** --tp 2 --admin-key=***"
