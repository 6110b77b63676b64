"""A bundle of another subject with the proposal that it asks for, as a turn of the chat before the real one.

A small model that is told how to find a rule repeats what it is told; one that has seen it done does it.  No subject,
feature or value of it is one of a generated mission.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.guide.candidates import Ticket
from tasks.guide.prompting import PromptLanguage
from tasks.guide.verdict_lines import Verdict

Summaries = tuple[str, ...]


@dataclass(frozen=True)
class SolvedBundle:
    """Tickets that were judged wrongly, with their labels, and summaries of passing ones that were judged rightly; the
    rule behind the labels, and what shows it.  The sentence of the rule stands in no certain place.
    """

    mission: str
    focus: str
    experience: str
    reason: str
    wrong: tuple[tuple[Verdict, Summaries], ...]
    right: tuple[Summaries, ...]
    summary: str
    rationale: str
    rule: str

    def judged_wrongly(self) -> list[Ticket]:
        return [self._ticket(number, label, texts) for number, (label, texts) in enumerate(self.wrong, 1)]

    def judged_rightly(self) -> list[Ticket]:
        return [self._ticket(number, "pass", texts) for number, texts in enumerate(self.right, len(self.wrong) + 1)]

    def _ticket(self, number: int, label: Verdict, texts: Summaries) -> Ticket:
        images = {f"image_{n}": text for n, text in enumerate(texts, 1)}
        return Ticket(f"ticket-{number}", self.mission, label, images)

    def proposal(self, groups: list[str]) -> dict[str, Any]:
        """In the order of `tasks.guide.proposal.narrowed_schema`: first what is seen, then the rule.

        No string has a quotation mark: xgrammar takes no escape in a string of bounded length.
        """
        edit = {"op": "upsert", "key": None, "rationale": self.rationale, "text": self.rule, "evidence": groups}
        return {
            "action": "refine",
            "summary": self.summary,
            "operations": [edit],
            "critique": None,
            "evidence_group_ids": groups,
            "uncertainty_note": None,
        }


SOLVED: Mapping[PromptLanguage, SolvedBundle] = {
    "en": SolvedBundle(
        mission="kitchen table",
        focus="Whether a table is laid as the hotel wants it.",
        experience="Look at the whole picture.",
        reason="No experience applies.",
        wrong=(
            ("fail", ("The cup has a deep crack.", "The cup is blue.")),
            ("fail", ("Two plates lie there.", "The cup is blue.")),
            ("pass", ("The window is closed.", "The cup has a deep crack.")),
            ("fail", ("The cup is blue.", "The window is closed.")),
            ("fail", ("The cup has a deep crack.", "The cup is blue.")),
        ),
        right=(
            ("The cup has a deep crack.", "The window is closed."),
            ("A spoon lies there.", "Two plates lie there."),
            ("The cup has a deep crack.", "A spoon lies there."),
        ),
        summary="'The cup is blue.' stands in 4 tickets with label fail and in 0 with label pass.",
        rationale="'The cup has a deep crack.' stands in tickets of both labels, 'The cup is blue.' in failing ones.",
        rule="Fail the ticket when the cup is blue.",
    ),
    "zh": SolvedBundle(
        mission="餐桌检查",
        focus="检查餐桌的摆放是否符合酒店的要求。",
        experience="看完整张图片。",
        reason="没有经验适用。",
        wrong=(
            ("fail", ("杯子有一道深裂纹。", "杯子为蓝色。")),
            ("fail", ("桌上有两个盘子。", "杯子为蓝色。")),
            ("pass", ("窗户关着。", "杯子有一道深裂纹。")),
            ("fail", ("杯子为蓝色。", "窗户关着。")),
            ("fail", ("杯子有一道深裂纹。", "杯子为蓝色。")),
        ),
        right=(
            ("杯子有一道深裂纹。", "窗户关着。"),
            ("桌上有一把勺子。", "桌上有两个盘子。"),
            ("杯子有一道深裂纹。", "桌上有一把勺子。"),
        ),
        summary="“杯子为蓝色。”在 4 个 label 为 fail 的工单中出现，在 0 个 label 为 pass 的工单中出现。",
        rationale="“杯子有一道深裂纹。”在两种工单中都出现，“杯子为蓝色。”只在不通过的工单中出现。",
        rule="杯子为蓝色时判不通过。",
    ),
}
