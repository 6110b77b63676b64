"""The rule critic says whether the answer is the label, and which of its words the summaries have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tasks.guide.candidates import Signals, Ticket, read_candidate
from tasks.guide.critique import critic_messages, critic_schema
from tasks.guide.replies import without_bounds
from tasks.guide.templates import CriticTemplate
from tasks.guide.verdict_lines import Verdict
from tasks.openai.schema import mismatch
from workers.embedded.endpoint.rules import all_rules

CONFIG = Path(__file__).parents[5] / "configs" / "guide" / "critic.txt"
TEMPLATE = CriticTemplate.read(CONFIG)


def review(label: Verdict, reason: str, template: CriticTemplate = TEMPLATE) -> dict[str, Any]:
    ticket = Ticket("t", "wiring", label, {"image_1": "The ground wire is black.", "image_2": " "})
    candidate = read_candidate(0, 0, 0, 1, f"Verdict: pass\nReason: {reason}\nConfidence: 0.9", 9, "stop")
    signals, experiences = Signals(label_match=label == "pass"), {"G0": "Look at the wire."}
    messages = critic_messages(template, "Whether wires are right.", experiences, ticket, candidate, signals,
                               summary_max_chars=200, critique_max_chars=400)  # fmt: skip
    reply = all_rules()["critique"](*messages)
    assert mismatch(reply, without_bounds(critic_schema(200, 400))) is None
    return reply


def test_a_wrong_answer_is_compared_with_summaries_and_experiences() -> None:
    assert review("fail", "the wire is tied") == {
        "summary": "The answer is pass and the label is fail: wrong.",
        "critique": "1 of 2 words of the reason stand in the summaries: wire.",
        "root_cause": "1 words of the experiences stand there: wire.",
        "issues": ["image_2 has no summary."],
        "candidate_ops": None,
        "uncertainty_note": None,
    }


@pytest.mark.parametrize("user", ["", "no candidate", '{"signals": {}}'])
def test_a_prompt_of_another_form_is_refused(user: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        all_rules()["critique"]("", user)
