"""How well the judge agrees with people: stage 1 alone, beside the plain rule that takes any number of the answer, and
all three stages with a stand-in for the model of stage 2.

The stand-in says what the person said, or the opposite in one answer of ten, which the hash of the answer chooses; its
two numbers are the gold's and that of the answer which is nearest to it, the worst that a model can write.

`--data` is a JSONL file in FinanceBench's format; `--labels` has one row an answer: {financebench_id, model_answer,
label}, with the label "Correct Answer" for a right one.  Only golds that are pure numbers count: on the others stage 1
decides nothing.

`--fold` selects the questions.  A question is in the held-out fold when the first byte of the SHA-256 of its text
(UTF-8) is below 128, else in the development fold, so that all answers to one question are in the same fold, whatever
else the file holds.  Change the rule by the cases of `dev` only; run `held-out` when the rule is final.

The intervals are 95 % Wilson intervals.  Answers to one question resemble each other, so the number of answers is
divided by the design effect of the questions (Korn and Graubard 1998); where a share is 0 or 1 that effect cannot be
estimated, and the interval is too narrow.
`python benchmarks/judge.py --labels FILE --data FILE [--fold dev|held-out|all] [--cases]`
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from figures import table, write

from tasks.judging.numbers import read_numbers
from tasks.judging.rule import find_match, in_gold_unit, is_close, pure_number
from tasks.judging.verdict import JudgeReply, judge
from tasks.records import Judge

TOLERANCES = (0.01, 0.05, 0.15)
LENGTHS = {"up to 10 words": (1, 10), "11 to 40": (11, 40), "over 40": (41, 10**9)}
LONG = 40  # words
FOLDS = ("dev", "held-out", "all")
Z = 1.959964  # the 97.5th percentile of the normal distribution


@dataclass(frozen=True)
class JudgedAnswer:
    """One answer that a person judged."""

    question: str
    gold: str
    answer: str
    is_right: bool

    @property
    def words(self) -> int:
        return len(self.answer.split())


Rule = Callable[[JudgedAnswer, float], bool]


def fold_of(question: str) -> Literal["dev", "held-out"]:
    """The fold of a question, from its text alone."""
    return "held-out" if hashlib.sha256(question.encode()).digest()[0] < 128 else "dev"


def any_number(row: JudgedAnswer, tolerance: float) -> bool:
    """The plain rule: some number of the answer, as written, is within the tolerance of the gold's."""
    target = read_numbers(row.gold)[0]
    return any(is_close(number.value, target.value, tolerance) for number in read_numbers(row.answer))


def final_number(row: JudgedAnswer, tolerance: float) -> bool:
    """Stage 1: the number that the answer settles on is within the tolerance of the gold's."""
    return find_match(row.question, row.gold, row.answer, tolerance) is not None


def with_model(errs: bool) -> Callable[[JudgedAnswer, float], bool]:
    """All three stages; with `errs` the model is wrong in one answer of ten."""

    def decide(row: JudgedAnswer, tolerance: float) -> bool:
        def ask(_: tuple[str, str]) -> JudgeReply:
            is_flipped = errs and hashlib.sha256(row.answer.encode()).digest()[1] < 26
            target = read_numbers(row.gold)[0]
            near = [in_gold_unit(n, target, row.question, row.answer) for n in read_numbers(row.answer)]
            return JudgeReply(
                reasoning="", category="numerical", confidence=0.9, relative_error_pct=None,
                normalized_gt=target.value, is_correct=row.is_right != is_flipped,
                normalized_pred=min(
                    (value for value in near if value is not None), key=lambda v: abs(v - target.value), default=None
                ),
            )  # fmt: skip

        settings = Judge("stand-in", tolerance, True, 0.0, 1.0, 512, 42, 1)
        return judge(row.question, row.gold, row.answer, settings, ask).is_correct

    return decide


def load(data: Path, labels: Path, fold: str) -> list[JudgedAnswer]:
    """The judged answers of a fold whose gold is a pure number."""
    golds = {row["financebench_id"]: row for row in _rows(data)}
    pairs = [(golds[row["financebench_id"]], row) for row in _rows(labels) if row["financebench_id"] in golds]
    return [
        JudgedAnswer(gold["question"], gold["answer"], str(row["model_answer"]), row["label"] == "Correct Answer")
        for gold, row in pairs
        if fold in ("all", fold_of(gold["question"])) and pure_number(gold["answer"]) is not None
    ]


RULES: dict[str, Rule] = {
    "stage 1": final_number,
    "any number": any_number,
    "three stages, model right": with_model(errs=False),
    "three stages, model wrong 1 in 10": with_model(errs=True),
}


def agreement(answers: Sequence[JudgedAnswer], rule: Rule, tolerance: float) -> dict[str, Any]:
    """Counts, precision and recall of a rule with their intervals; None where there is nothing to divide by."""
    accepted = [answer for answer in answers if rule(answer, tolerance)]
    right = [answer for answer in answers if answer.is_right]
    long_wrong = [answer for answer in answers if answer.words > LONG and not answer.is_right]
    chosen = set(accepted)
    return {
        "answers": len(answers),
        "right": len(right),
        "accepted": len(accepted),
        "precision": _share(accepted, [answer.is_right for answer in accepted]),
        "recall": _share(right, [answer in chosen for answer in right]),
        "long_wrong": len(long_wrong),
        "long_wrong_accepted": _share(long_wrong, [answer in chosen for answer in long_wrong]),
    }


def _share(answers: Sequence[JudgedAnswer], hits: Sequence[bool]) -> dict[str, float] | None:
    if not answers:
        return None
    by_question: dict[str, list[bool]] = defaultdict(list)
    for answer, hit in zip(answers, hits, strict=True):
        by_question[answer.question].append(hit)
    low, high = wilson(sum(hits) / len(hits), len(hits) / _design_effect(list(by_question.values())))
    return {"share": round(sum(hits) / len(hits), 4), "low": round(low, 4), "high": round(high, 4)}


def _design_effect(clusters: Sequence[Sequence[bool]]) -> float:
    """How many times larger the variance of a share is than it were with independent answers, and at least 1."""
    total, k = sum(map(len, clusters)), len(clusters)
    share = sum(map(sum, clusters)) / total
    if k < 2 or share in (0.0, 1.0):
        return 1.0
    variance = k / (k - 1) * sum((sum(hits) - share * len(hits)) ** 2 for hits in clusters) / total**2
    return max(1.0, variance * total / (share * (1 - share)))


def wilson(share: float, count: float) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share of `count` answers."""
    centre = share + Z**2 / (2 * count)
    half = Z * math.sqrt(share * (1 - share) / count + Z**2 / (4 * count**2))
    scale = 1 + Z**2 / count
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def print_cases(answers: Sequence[JudgedAnswer], tolerance: float) -> None:
    """Every answer on which people and the rule differ."""
    for answer in answers:
        if answer.is_right != final_number(answer, tolerance):
            side = "accepted, people say wrong" if not answer.is_right else "not accepted, people say right"
            print(f"\n{side}: gold {answer.gold}\n  {answer.question}\n  ... {answer.answer[-300:]!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--fold", choices=FOLDS, default="dev", help="which questions (default: dev)")
    parser.add_argument("--cases", action="store_true", help="also print where people and the rule differ at 1%%")
    arguments = parser.parse_args()
    answers = load(arguments.data, arguments.labels, arguments.fold)
    figures = []
    for tolerance in TOLERANCES:
        for length, (least, most) in {**LENGTHS, "all": (0, 10**9)}.items():
            some = [answer for answer in answers if least <= answer.words <= most]
            for name, rule in RULES.items():
                figures.append(
                    {"tolerance": tolerance, "length": length, "rule": name} | agreement(some, rule, tolerance)
                )
    questions = len({answer.question for answer in answers})
    print(f"fold {arguments.fold}: {questions} questions, {len(answers)} answers")
    head = ("tolerance", "length", "rule", "answers", "right", "accepted", "precision", "recall", "long wrong accepted")
    print(table(head, [_line(figure) for figure in figures]))
    if arguments.cases:
        print_cases(answers, TOLERANCES[0])
    name = f"judge_{arguments.fold.replace('-', '_')}"
    write(name, {"fold": arguments.fold, "questions": questions, "figures": figures})


def _line(figure: dict[str, Any]) -> list[str]:
    shares = [figure[name] for name in ("precision", "recall", "long_wrong_accepted")]
    counts = [str(figure[name]) for name in ("answers", "right", "accepted")]
    return [f"{figure['tolerance']:.0%}", figure["length"], figure["rule"], *counts, *map(_shown, shares)]


def _shown(share: dict[str, float] | None) -> str:
    return "-" if share is None else f"{share['share']:.3f} [{share['low']:.3f}, {share['high']:.3f}]"


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


if __name__ == "__main__":
    main()
