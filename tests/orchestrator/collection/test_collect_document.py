"""The output names who answered, and not whom the settings name."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.collection.build import Split
from orchestrator.collection.document import make_document
from orchestrator.collection.pipeline import UNKNOWN, Gathered
from orchestrator.collection.settings import read_collect_settings
from tasks.models import Example
from tasks.openai.provider import NO_MODEL, RULES

ROOT = Path(__file__).parents[3]
EXAMPLE = Example("q", "context", "question", "gold")
VERDICT = {"is_correct": False, "confidence": 1.0, "category": "text", "reasoning": "r"}


@pytest.mark.parametrize(
    ("compressed_by", "judged_by", "reflector", "judge"),
    [
        (["m", "m"], ["", ""], "m", NO_MODEL),
        ([RULES, RULES], ["", RULES], RULES, RULES),
        (["a", "b"], ["c", UNKNOWN], "a and b", f"c and {UNKNOWN}"),
    ],
)
def test_the_output_names_who_answered(
    compressed_by: list[str], judged_by: list[str], reflector: str, judge: str
) -> None:
    settings = read_collect_settings(ROOT / "configs" / "collect.yaml")
    gathered = Gathered(
        verbose={0: "long", 1: "longer"},
        compressed={0: "l", 1: "l"},
        correctness={0: VERDICT, 1: VERDICT},
        compressed_by=dict(enumerate(compressed_by)),
        judged_by=dict(enumerate(judged_by)),
    )
    document = make_document(settings, Split((EXAMPLE,), (), ()), [gathered], {}, {}, "2026-01-02T03:04:05Z")
    metadata = document["metadata"]
    assert (metadata["reflector_model"], metadata["evaluator_model"]) == (reflector, judge)
    assert metadata["config_snapshot"]["reflector"]["model_id"] == settings.reflector.model_id
