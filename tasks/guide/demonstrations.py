"""Tickets of other subjects that are judged already, as turns of a chat before the ticket that is asked.

They show how experiences decide: what looks bad passes where no experience names it, and what looks well fails where
one does.  No subject, feature or value of them is one of a generated mission.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tasks.guide.verdict_lines import Verdict

TurnLanguage = Literal["en", "zh"]


@dataclass(frozen=True)
class Demonstration:
    """A judged ticket: experiences, summaries, and the answer without its confidence."""

    experiences: tuple[str, ...]
    summaries: tuple[str, ...]
    verdict: Verdict
    reason: str


_TABLE = (
    "Look at the whole picture.",
    "Fail the ticket when the cup is blue.",
    "Fail the ticket when the spoon is made of tin.",
)
_BICYCLE = (
    "Read all summaries.", "Fail the ticket when the bell is square.", "Fail the ticket when the saddle is brown."
)  # fmt: skip
_POST = ("Stay calm.", "Fail the ticket when the stamp is on the back.")
_NONE = "No experience applies."
_TABLE_ZH = ("看完整张图片。", "杯子为蓝色时判不通过。", "使用锡勺时判不通过。")
_BICYCLE_ZH = ("读完所有内容。", "车铃为方形时判不通过。", "车座为棕色时判不通过。")
_POST_ZH = ("保持冷静。", "邮票贴在背面时判不通过。")
_NONE_ZH = "没有经验适用。"

DEMONSTRATIONS: Mapping[TurnLanguage, tuple[Demonstration, ...]] = {
    "en": (
        Demonstration(_TABLE, ("The window is closed.", "The cup is blue."), "fail", "G1 applies, the cup is blue."),
        Demonstration(_TABLE, ("The cup has a deep crack.", "Two plates lie there."), "pass", _NONE),
        Demonstration(_TABLE, ("The spoon is made of tin.", "The cup has a deep crack."), "fail",
                      "G2 applies, the spoon is made of tin."),
        Demonstration(_BICYCLE, ("The bell is round.", "The chain is torn."), "pass", _NONE),
        Demonstration(_BICYCLE, ("The tyre is new.", "The saddle is brown."), "fail",
                      "G2 applies, the saddle is brown."),
        Demonstration(_POST[:1], ("The letter is wet.", "The floor is grey."), "pass", _NONE),
        Demonstration(_POST, ("The floor is grey.", "The string is thin."), "pass", _NONE),
        Demonstration(_POST, ("The stamp is on the back.", "The letter is wet."), "fail",
                      "G1 applies, the stamp is on the back."),
        Demonstration(_BICYCLE, ("The bell is square.", "The chain is torn."), "fail",
                      "G1 applies, the bell is square."),
        Demonstration(_TABLE, ("Two plates lie there.", "The spoon is made of tin."), "fail",
                      "G2 applies, the spoon is made of tin."),
    ),
    "zh": (
        Demonstration(_TABLE_ZH, ("窗户关着。", "杯子为蓝色。"), "fail", "G1 适用，杯子为蓝色。"),
        Demonstration(_TABLE_ZH, ("杯子有一道深裂纹。", "桌上有两个盘子。"), "pass", _NONE_ZH),
        Demonstration(_TABLE_ZH, ("使用锡勺。", "杯子有一道深裂纹。"), "fail", "G2 适用，使用锡勺。"),
        Demonstration(_BICYCLE_ZH, ("车铃为圆形。", "链条已断裂。"), "pass", _NONE_ZH),
        Demonstration(_BICYCLE_ZH, ("轮胎是新的。", "车座为棕色。"), "fail", "G2 适用，车座为棕色。"),
        Demonstration(_POST_ZH[:1], ("信封受潮。", "地面是湿的。"), "pass", _NONE_ZH),
        Demonstration(_POST_ZH, ("地面是湿的。", "绳子较细。"), "pass", _NONE_ZH),
        Demonstration(_POST_ZH, ("邮票贴在背面。", "信封受潮。"), "fail", "G1 适用，邮票贴在背面。"),
        Demonstration(_BICYCLE_ZH, ("车铃为方形。", "链条已断裂。"), "fail", "G1 适用，车铃为方形。"),
        Demonstration(_TABLE_ZH, ("桌上有两个盘子。", "使用锡勺。"), "fail", "G2 适用，使用锡勺。"),
    ),
}  # fmt: skip
BALANCED = (0, 1, 2, 3, 4, 5, 6, 7)
STRICT = (1, 0, 2, 6, 4, 8, 7, 9)
"""Places in `DEMONSTRATIONS`: four of eight fail; and six of eight, for a model that passes too much."""


def demonstrations(language: TurnLanguage, places: Sequence[int]) -> list[Demonstration]:
    return [DEMONSTRATIONS[language][place] for place in places]
