"""The files of a collection: its checkpoints, whatever a kill left of them, and its output, written and read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from collected_folder import DOCUMENT, collected_folder
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.collect.report import Pair, Split, make_document, read_collection
from orchestrator.collect.session import Checkpoint
from orchestrator.collect.settings import read_collect_settings
from orchestrator.runs.folder import OutputError
from tasks.openai.endpoint import NO_MODEL
from tasks.records import Example


@settings(max_examples=40, deadline=None)  # each syncs the file to the disk
@given(st.data())
def test_a_checkpoint_cut_anywhere_keeps_its_whole_lines_and_can_be_appended_to(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("cut") / "c.jsonl"
    lines = [{"example_id": f"e{i}", "key": "k", "text": "x\u2028y" * i} for i in range(4)]
    whole = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    checkpoint = Checkpoint(path, is_resumed=True)
    left = [f"e{i}" for i in range(whole[:cut].count(b"\n"))]
    assert list(checkpoint.lines) == left
    checkpoint.append("new", "k", verbose_answers=["Ünïcode\n", ""])
    again = Checkpoint(path, is_resumed=True)
    assert again.lines == checkpoint.lines and list(again.lines) == [*left, "new"]
    assert again.holds("new", "k") and not again.holds("new", "other settings") and not again.holds("c", "k")


def test_each_start_without_resume_sets_the_checkpoint_aside_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    for example in ("a", "b"):
        path.write_text(f'{{"example_id": "{example}", "key": "k"}}\n')
        Checkpoint(path, is_resumed=False).set_aside()
        assert not path.exists()
    assert [json.loads(path.read_text())["example_id"] for path in sorted(tmp_path.iterdir())] == ["a", "b"]


FIRST, SECOND, OTHER = (Example(name, "context", "question", "gold") for name in ("a", "b", "c"))
RIGHT = {"is_correct": True, "confidence": 1.0, "category": "text", "reasoning": "r"}
WRONG = {**RIGHT, "is_correct": False}
METADATA = """
created_at seed target_model_id reflector_model evaluator_model verbose_num_samples k correctness_tolerance split_counts
train_retained_examples train_discarded_examples total_retained_pairs config_snapshot
""".split()  # noqa: SIM905


def gathered(*verdicts: dict[str, object]) -> dict[int, Pair]:
    return {n: Pair(f"long {n}", f"short {n}", verdict, "m") for n, verdict in enumerate(verdicts)}


def test_the_output_has_the_keys_of_the_specification_and_names_who_answered() -> None:
    shipped = read_collect_settings(Path(__file__).parents[3] / "configs" / "collect.yaml")
    # Given three examples, with one retained pair, two and none
    found = [gathered(WRONG, RIGHT), gathered(RIGHT, RIGHT), gathered(WRONG)]
    ids = [([1, 2], [1]), ([3], [3]), ([4], [])]
    split = Split((FIRST, SECOND, OTHER), (OTHER,), ())
    document = make_document(shipped, split, found, ids, {"k": 0}, "2026-01-02T03:04:05Z")
    assert list(document) == ["metadata", "token_selection", "splits"]
    metadata = document["metadata"]
    assert list(metadata) == METADATA
    assert (metadata["reflector_model"], metadata["evaluator_model"]) == ("m", NO_MODEL)
    assert metadata["split_counts"] == {"train": 3, "val": 1, "test": 0}
    assert metadata["config_snapshot"]["reflector"]["model_id"] == shipped.reflector.model_id
    asked = {"context": "context", "query": "question", "gold_answer": "gold"}
    assert document["splits"]["val"] == [{"example_id": "c", **asked}]
    first, second, third = document["splits"]["train"]
    answers = {"verbose_answer": "long 1", "compressed_answer": "short 1"}
    assert first == {
        "example_id": "a",
        **asked,
        "num_verbose_generated": 2,
        "num_retained": 1,
        "sample_weight": 1.0,
        "retained_pairs": [{**answers, "verbose_token_ids": [1, 2], "compressed_token_ids": [1], "correctness": RIGHT}],
        "discarded_pairs": [{"verbose_answer": "long 0", "compressed_answer": "short 0", "correctness": WRONG}],
    }
    # Each example has the token ids of its own pairs, and one without a retained pair has no weight
    assert [pair["verbose_token_ids"] for pair in second["retained_pairs"]] == [[3], [4]]
    assert (second["sample_weight"], metadata["total_retained_pairs"]) == (0.5, 3)
    assert (third["num_retained"], third["sample_weight"], third["retained_pairs"]) == (0, None, [])
    assert metadata["train_discarded_examples"] == 1


@pytest.mark.parametrize("damage", [{"splits": 3}, {"token_selection": {**DOCUMENT["token_selection"], "freq_raw": 3}}])
def test_an_output_is_read_again_and_a_damaged_one_is_named(tmp_path: Path, damage: dict[str, Any]) -> None:
    named = {"phase0.output_path": "/nowhere/phase0_data.json"}  # the folder was moved
    assert read_collection(tmp_path, named) is None
    path = collected_folder(tmp_path) / "phase0_data.json"
    assert (found := read_collection(tmp_path, named)) is not None
    assert found["token_selection"]["v_steer"] == DOCUMENT["token_selection"]["v_steer"]
    path.write_text(json.dumps(DOCUMENT | damage))
    with pytest.raises(OutputError, match=r"phase0_data\.json cannot be read: "):
        read_collection(tmp_path, named)
