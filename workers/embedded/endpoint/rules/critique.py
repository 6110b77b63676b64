"""The rule critic: whether the answer is the label, and which words of its reason stand in the summaries.

It reads what `tasks.guide.critique.critic_messages` fills in, wherever the template has put it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tasks.guide import critique
from workers.embedded.endpoint.phrases import content_words

SCHEMA_NAME = critique.SCHEMA_NAME

_IMAGE = re.compile(r'^- (image_\d+): (".*")$', re.MULTILINE)
_EXPERIENCE = re.compile(r"^\[G\d+\]\. (.*)$", re.MULTILINE)
SHOWN = 8  # words that a critique names


def answer(system: str, user: str) -> dict[str, Any]:
    """The reply to `critic_messages`."""
    del system
    candidate = _candidate(user)
    images = {name: str(json.loads(text)) for name, text in _IMAGE.findall(user)}
    if not images:
        raise ValueError("the prompt has no summaries")
    verdict, is_right = candidate["verdict"], candidate["signals"]["label_match"]
    label = verdict if is_right else {"pass": "fail", "fail": "pass"}[verdict]
    seen = content_words(" ".join(images.values()))
    reason = sorted(content_words(candidate["reason"] or ""))
    shared = [word for word in reason if word in seen]
    guided = sorted({word for text in _EXPERIENCE.findall(user) for word in content_words(text)} & seen)
    empty = [f"{name} has no summary." for name, text in images.items() if not text.strip()]
    return {
        "summary": f"The answer is {verdict} and the label is {label}: {'right' if is_right else 'wrong'}.",
        "critique": f"{len(shared)} of {len(reason)} words of the reason stand in the summaries{_listed(shared)}.",
        "root_cause": None if is_right else f"{len(guided)} words of the experiences stand there{_listed(guided)}.",
        "issues": empty or None,
        "candidate_ops": None,
        "uncertainty_note": None,
    }


def _candidate(user: str) -> dict[str, Any]:
    """The first line that is an answer with its signals."""
    for line in user.split("\n"):
        if line.startswith("{") and '"signals"' in line:
            found: dict[str, Any] = json.loads(line)
            return found
    raise ValueError("the prompt has no answer with signals")


def _listed(words: list[str]) -> str:
    return f": {', '.join(words[:SHOWN])}" if words else ""
