"""The checkpoint files: whole lines only, whatever a kill or a power cut left."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.collect.session import Checkpoint


def line(example: str, **more: object) -> dict[str, object]:
    return {"example_id": example, "key": "k", **more}


def test_what_was_appended_is_there_for_the_next_start(tmp_path):
    first = Checkpoint(tmp_path / "c.jsonl", is_resumed=False)
    first.append("a", "k", verbose_answers=["Ünïcode\n", ""])
    first.append("b", "k")
    again = Checkpoint(tmp_path / "c.jsonl", is_resumed=True)
    assert again.lines == first.lines
    assert again.holds("a", "k")
    assert not again.holds("a", "other settings")
    assert not again.holds("c", "k")


@given(st.data())
def test_a_file_cut_anywhere_keeps_its_whole_lines_and_can_be_appended_to(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("cut") / "c.jsonl"
    whole = b"".join(json.dumps(line(f"e{i}", text="x\u2028y" * i)).encode() + b"\n" for i in range(4))
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    checkpoint = Checkpoint(path, is_resumed=True)
    assert list(checkpoint.lines) == [f"e{i}" for i in range(whole[:cut].count(b"\n"))]
    checkpoint.append("new", "k")
    again = Checkpoint(path, is_resumed=True)
    assert list(again.lines) == [*(f"e{i}" for i in range(whole[:cut].count(b"\n"))), "new"]


def test_each_start_without_resume_sets_the_file_aside_and_loses_nothing(tmp_path):
    path = tmp_path / "c.jsonl"
    for example in ("a", "b"):
        path.write_text(json.dumps(line(example)) + "\n")
        Checkpoint(path, is_resumed=False).set_aside()
        assert not path.exists()
    kept = [json.loads(path.read_text())["example_id"] for path in sorted(tmp_path.iterdir())]
    assert kept == ["a", "b"]
