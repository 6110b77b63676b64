"""The output has the keys of the specification, and names who answered, not whom the settings name."""

from __future__ import annotations

from pathlib import Path

from orchestrator.collect.report import Pair, Split, make_document
from orchestrator.collect.settings import read_collect_settings
from tasks.openai.endpoint import NO_MODEL
from tasks.records import Example

ROOT = Path(__file__).parents[3]
FIRST, SECOND, OTHER = (Example(name, "context", "question", "gold") for name in ("a", "b", "c"))
RIGHT = {"is_correct": True, "confidence": 1.0, "category": "text", "reasoning": "r"}
WRONG = {**RIGHT, "is_correct": False}
METADATA = """
created_at seed target_model_id reflector_model evaluator_model verbose_num_samples k correctness_tolerance split_counts
train_retained_examples train_discarded_examples total_retained_pairs config_snapshot
""".split()  # noqa: SIM905


def gathered(*verdicts: dict[str, object]) -> dict[int, Pair]:
    return {n: Pair(f"long {n}", f"short {n}", verdict, "m") for n, verdict in enumerate(verdicts)}


def test_the_output_has_the_keys_of_the_specification() -> None:
    settings = read_collect_settings(ROOT / "configs" / "collect.yaml")
    # Given two examples, of which the first has one retained pair and the second two
    found = [gathered(WRONG, RIGHT), gathered(RIGHT, RIGHT)]
    ids = [([1, 2], [1]), ([3], [3]), ([4], [])]
    split = Split((FIRST, SECOND), (OTHER,), ())
    document = make_document(settings, split, found, ids, {"k": 0}, "2026-01-02T03:04:05Z")
    assert list(document) == ["metadata", "token_selection", "splits"]
    metadata = document["metadata"]
    assert list(metadata) == METADATA
    assert (metadata["reflector_model"], metadata["evaluator_model"]) == ("m", NO_MODEL)
    assert metadata["split_counts"] == {"train": 2, "val": 1, "test": 0}
    assert metadata["config_snapshot"]["reflector"]["model_id"] == settings.reflector.model_id
    asked = {"context": "context", "query": "question", "gold_answer": "gold"}
    assert document["splits"]["val"] == [{"example_id": "c", **asked}]
    first, second = document["splits"]["train"]
    assert first == {
        "example_id": "a",
        **asked,
        "num_verbose_generated": 2,
        "num_retained": 1,
        "sample_weight": 1.0,
        "retained_pairs": [
            {
                "verbose_answer": "long 1",
                "compressed_answer": "short 1",
                "verbose_token_ids": [1, 2],
                "compressed_token_ids": [1],
                "correctness": RIGHT,
            }
        ],
        "discarded_pairs": [{"verbose_answer": "long 0", "compressed_answer": "short 0", "correctness": WRONG}],
    }
    # Each example has the token ids of its own pairs
    assert [pair["verbose_token_ids"] for pair in second["retained_pairs"]] == [[3], [4]]
    assert (second["sample_weight"], metadata["total_retained_pairs"]) == (0.5, 3)


def test_an_example_without_a_retained_pair_has_no_weight() -> None:
    settings = read_collect_settings(ROOT / "configs" / "collect.yaml")
    found = [gathered(WRONG)]
    document = make_document(settings, Split((FIRST,), (), ()), found, [], {}, "2026-01-02T03:04:05Z")
    [entry] = document["splits"]["train"]
    assert (entry["num_retained"], entry["sample_weight"], entry["retained_pairs"]) == (0, None, [])
    assert document["metadata"]["train_discarded_examples"] == 1
