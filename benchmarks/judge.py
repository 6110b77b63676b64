"""How well stage 1 of the judge agrees with people, beside the plain rule that takes any number of the answer.

`--data` is a JSONL file in FinanceBench's format; `--labels` has one row an answer: {financebench_id, model_answer,
label}, with the label "Correct Answer" for a right one.  Only golds that are pure numbers count: on the others stage 1
decides nothing.  Wanted: at 1 %, precision 0.97 and recall 0.90; at 15 %, at most 10 % of the wrong answers of over 40
words accepted.
`python benchmarks/judge.py --labels FILE --data FILE [--cases]`
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from figures import table, write

from tasks.judging.numbers import read_numbers
from tasks.judging.rule import decide, is_close, pure_number

TOLERANCES = (0.01, 0.05, 0.15)
LENGTHS = {"up to 10 words": (1, 10), "11 to 40": (11, 40), "over 40": (41, 10**9)}
LONG = 40  # words
HALVES = 1000
Rule = Callable[[str, str, str, float], bool]


@dataclass(frozen=True)
class Row:
    """One answer that a person judged."""

    question: str
    gold: str
    answer: str
    is_right: bool

    @property
    def words(self) -> int:
        return len(self.answer.split())


def any_number(question: str, gold: str, answer: str, tolerance: float) -> bool:
    """The plain rule: some number of the answer, as written, is within the tolerance of the gold's."""
    target = read_numbers(gold)[0]
    return any(is_close(number.value, target.value, tolerance) for number in read_numbers(answer))


def settled_number(question: str, gold: str, answer: str, tolerance: float) -> bool:
    return decide(question, gold, answer, tolerance) is True


def joined(data: Path, labels: Path) -> list[Row]:
    """The judged answers whose gold is a pure number."""
    golds = {row["financebench_id"]: row for row in _rows(data)}
    found = [(golds[row["financebench_id"]], row) for row in _rows(labels) if row["financebench_id"] in golds]
    return [
        Row(gold["question"], gold["answer"], str(row["model_answer"]), row["label"] == "Correct Answer")
        for gold, row in found
        if pure_number(gold["answer"]) is not None
    ]


def agreement(rows: Sequence[Row], rule: Rule, tolerance: float) -> dict[str, Any]:
    """Counts, precision and recall of a rule; the shares are None where there is nothing to divide by."""
    accepted = [row for row in rows if rule(row.question, row.gold, row.answer, tolerance)]
    hits = sum(row.is_right for row in accepted)
    right = sum(row.is_right for row in rows)
    long_wrong = sum(row.words > LONG and not row.is_right for row in rows)
    return {
        "answers": len(rows),
        "right": right,
        "accepted": len(accepted),
        "precision": _share(hits, len(accepted)),
        "recall": _share(hits, right),
        "long_wrong": long_wrong,
        "long_wrong_accepted": _share(sum(row.words > LONG and not row.is_right for row in accepted), long_wrong),
    }


def in_halves(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """The three wanted figures on random halves of the questions: their 5th, 50th and 95th percentile.

    Halves of questions, not of answers: answers to one question resemble each other.
    """
    questions = sorted({(row.question, row.gold) for row in rows})
    rng = random.Random(0)
    found: dict[str, list[float]] = {"precision at 1%": [], "recall at 1%": [], "long wrong accepted at 15%": []}
    rule = cache(settled_number)
    for _ in range(HALVES):
        half = set(rng.sample(questions, len(questions) // 2))
        some = [row for row in rows if (row.question, row.gold) in half]
        strict, loose = agreement(some, rule, 0.01), agreement(some, rule, 0.15)
        figures = (strict["precision"], strict["recall"], loose["long_wrong_accepted"])
        for values, figure in zip(found.values(), figures, strict=True):
            values.append(figure)
    cuts = {name: statistics.quantiles(values, n=20) for name, values in found.items()}
    return {name: {"5%": cut[0], "50%": cut[9], "95%": cut[-1]} for name, cut in cuts.items()}


def print_cases(rows: Sequence[Row], tolerance: float) -> None:
    """Every answer on which people and the rule differ."""
    for row in rows:
        if row.is_right != settled_number(row.question, row.gold, row.answer, tolerance):
            side = "accepted, people say wrong" if not row.is_right else "not accepted, people say right"
            print(f"\n{side}: gold {row.gold}\n  {row.question}\n  ... {row.answer[-300:]!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cases", action="store_true", help="also print where people and the rule differ at 1%%")
    arguments = parser.parse_args()
    rows = joined(arguments.data, arguments.labels)
    figures = []
    for tolerance in TOLERANCES:
        for length, (least, most) in {**LENGTHS, "all": (0, 10**9)}.items():
            some = [row for row in rows if least <= row.words <= most]
            for name, rule in (("settled number", settled_number), ("any number", any_number)):
                figures.append(
                    {"tolerance": tolerance, "length": length, "rule": name} | agreement(some, rule, tolerance)
                )
    head = ("tolerance", "length", "rule", "answers", "right", "accepted", "precision", "recall", "long wrong accepted")
    print(table(head, [_line(figure) for figure in figures]))
    if arguments.cases:
        print_cases(rows, TOLERANCES[0])
    halves = in_halves(rows)
    print(f"\non {HALVES} random halves of the questions: 5th, 50th, 95th percentile")
    for name, cut in halves.items():
        print(f"  {name:<28}" + "  ".join(f"{value:.3f}" for value in cut.values()))
    golds = len({(row.question, row.gold) for row in rows})
    write("judge", {"golds": golds, "figures": figures, "halves": halves})


def _line(figure: dict[str, Any]) -> list[str]:
    shares = [figure[name] for name in ("precision", "recall", "long_wrong_accepted")]
    counts = [str(figure[name]) for name in ("answers", "right", "accepted")]
    shown = ["-" if share is None else f"{share:.3f}" for share in shares]
    return [f"{figure['tolerance']:.0%}", figure["length"], figure["rule"], *counts, *shown]


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


if __name__ == "__main__":
    main()
