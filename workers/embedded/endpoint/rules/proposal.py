"""The rule reflector: one experience, of the words that best tell failing from passing tickets among those shown.

It is a count, and no more: see `workers.embedded.endpoint.phrases`.  It reads the lists that
`tasks.guide.proposal.proposal_messages` fills in, wherever the template has put them.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tasks.guide import proposal
from tasks.guide.experiences import normalised
from tasks.guide.prompts import prompt_language
from workers.embedded.endpoint.phrases import LabelledTicket, Separator, separators

SCHEMA_NAME = proposal.SCHEMA_NAME

DUTY = 0.8  # the share of passing tickets that have the words; labels may be wrong
_EXPERIENCE = re.compile(r"^\[G\d+\]\. (.*)$", re.MULTILINE)


def answer(system: str, user: str) -> dict[str, Any]:
    """The reply to `proposal_messages`."""
    del system
    tickets = _tickets(user)
    if not any(ticket.group for ticket in tickets):
        raise ValueError("the prompt has no tickets to reflect on")
    known = {normalised(text) for text in _EXPERIENCE.findall(user)}
    for found in separators(tickets):
        text = _experience(found)
        if text is not None and normalised(text) not in known:
            return _edit(found, text)
    return {
        "action": "noop",
        "summary": "No words that are not in an experience yet tell failing from passing tickets.",
        "critique": None,
        "operations": [],
        "evidence_group_ids": [],
        "uncertainty_note": None,
    }


def _edit(found: Separator, text: str) -> dict[str, Any]:
    counts = found.counts.items()
    counted = ", ".join(f"{count} of {total} tickets with label {label}" for label, (count, total) in counts)
    evidence = list(found.groups)
    operation = {"op": "upsert", "key": None, "text": text, "rationale": f"The words stand in {counted}."}
    return {
        "action": "refine",
        "summary": f"The words that best tell the labels apart: {', '.join(found.words)}.",
        "critique": f"They stand in {counted}.",
        "operations": [{**operation, "evidence": evidence, "merged_from": []}],
        "evidence_group_ids": evidence,
        "uncertainty_note": None,
    }


def _experience(found: Separator) -> str | None:
    """A fault, where the words go with fail.  Words of nearly all passing tickets are a duty; others say nothing."""
    is_chinese = prompt_language("".join(found.words)) == "zh"
    words = "”和“".join(found.words) if is_chinese else " ".join(found.words)
    if found.label == "fail":
        return f"摘要中出现“{words}”时，判不通过。" if is_chinese else f'Fail the ticket when a summary says "{words}".'
    having, passing = found.counts["pass"]
    if having < DUTY * passing:
        return None
    if is_chinese:
        return f"摘要中必须出现“{words}”，否则判不通过。"
    return f'The summaries must say "{words}", otherwise fail the ticket.'


def _tickets(user: str) -> list[LabelledTicket]:
    """The lines that are tickets: of the bundle with a group, and those for comparison without."""
    found = []
    for line in user.split("\n"):
        if line.startswith("{") and '"images"' in line:
            data = json.loads(line.removesuffix(","))
            texts = tuple(str(text) for text in data["images"].values())
            found.append(LabelledTicket(str(data.get("group", "")), str(data["label"]), texts))
    return found
