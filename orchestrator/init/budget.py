"""The fourth answer: what the run may take, in money, in evaluations or in time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from orchestrator.init.asking import WrongAnswer
from orchestrator.init.judge import JudgeChoice

Unit = Literal["dollars", "evaluations", "hours"]
MOST = 1_000_000
_AMOUNT = re.compile(r"(\$?)\s*(\d+(?:\.\d+)?)\s*([a-z$]*)", re.ASCII)
_UNITS: dict[str, tuple[Unit, float]] = {
    **dict.fromkeys(("$", "usd", "dollar", "dollars"), ("dollars", 1.0)),
    **dict.fromkeys(("evaluation", "evaluations", "eval", "evals"), ("evaluations", 1.0)),
    **dict.fromkeys(("h", "hour", "hours"), ("hours", 1.0)),
    **dict.fromkeys(("d", "day", "days"), ("hours", 24.0)),
    **dict.fromkeys(("m", "min", "minute", "minutes"), ("hours", 1 / 60)),
}


@dataclass(frozen=True)
class RunBudget:
    """The most of one thing.  Evaluations are those of the search: each candidate answers the whole training set."""

    amount: float
    unit: Unit

    def __str__(self) -> str:
        if self.unit == "dollars":
            return f"${self.amount:g}"
        is_short = self.unit == "hours" and self.amount < 1
        amount = f"{self.amount * (60 if is_short else 1):g}"
        unit = "minutes" if is_short else self.unit
        return f"{amount} {unit.removesuffix('s') if amount == '1' else unit}"


def read_budget(text: str, judge: JudgeChoice) -> RunBudget:
    """As in "$5", "60 evaluations", "2 hours" and "20 min".  Raises: WrongAnswer."""
    match = _AMOUNT.fullmatch(text.strip().lower())
    unit = _UNITS.get("$" if match and match[1] else match[3]) if match else None
    if match is None or unit is None or (match[1] and match[3] not in ("", "usd")):
        raise WrongAnswer('name an amount: "$5", "60 evaluations", "2 hours" or "20 min"')
    budget = RunBudget(float(match[2]) * unit[1], unit[0])
    if not 0 < budget.amount <= MOST:
        raise WrongAnswer(f"{text} is not more than 0 and at most {MOST:,}")
    if budget.unit == "dollars" and not judge.is_paid:
        raise WrongAnswer("nothing costs money with this judge: name evaluations, or a time")
    if budget.unit == "dollars" and not judge.has_prices:
        raise WrongAnswer(
            "the prices of the judge's model are not known: give --price-prompt, --price-cached and "
            "--price-completion, or name evaluations, or a time"
        )
    return budget
