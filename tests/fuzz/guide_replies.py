"""Replies in three lines that are almost right: ways to change a right one, and what must become of each.

PYTHONPATH=.:tests/fuzz python tests/fuzz/guide_replies.py     prints the table of outcomes
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tasks.guide.verdict_lines import ThreeLines, parse_three_lines

REPLIES = 500
Outcome = Literal["the same", "malformed", "either"]
"""What becomes of a changed reply: it is read as the right one is, or not at all, or that depends on the place."""


@dataclass(frozen=True)
class Right:
    """A right reply, by its parts."""

    verdict: str
    reason: str
    confidence: str

    def __str__(self) -> str:
        return lines(self.verdict, self.reason, self.confidence)


def lines(verdict: str, reason: str, confidence: str) -> str:
    return f"Verdict: {verdict}\nReason: {reason}\nConfidence: {confidence}"


VERDICTS = ("pass", "fail", "通过", "不通过", "未通过")
REASONS = (
    "the lid is open",
    "图2螺丝缺失：判不通过",
    "Verdict: pass is what image_1 says",
    "0.9",
    "fail",
    "A “B” 100%!",
)
CONFIDENCES = ("0.9", "0", "1", "0.05", "85%", "85", "1.0")

Change = Callable[[random.Random, Right], str]


def put(text: str) -> Change:
    """A reply in which `*` is a right one."""
    return lambda _rng, right: text.replace("*", str(right))


def swap(old: str, new: str) -> Change:
    return lambda _rng, right: str(right).replace(old, new, 1)


def verdict(*words: str) -> Change:
    return lambda rng, right: lines(rng.choice(words), right.reason, right.confidence)


def confidence(*values: str) -> Change:
    return lambda rng, right: lines(right.verdict, right.reason, rng.choice(values))


def around_verdict(*forms: str) -> Change:
    """The verdict with something before or after it, which `*` stands for."""
    return lambda rng, right: lines(rng.choice(forms).replace("*", right.verdict), right.reason, right.confidence)


def without_a_line(rng: random.Random, right: Right) -> str:
    parts = str(right).split("\n")
    del parts[rng.randrange(3)]
    return "\n".join(parts)


def out_of_order(rng: random.Random, right: Right) -> str:
    one, two, three = str(right).split("\n")
    return "\n".join(rng.choice([(two, one, three), (one, three, two), (three, two, one), (two, three, one)]))


def a_line_twice(rng: random.Random, right: Right) -> str:
    parts = str(right).split("\n")
    at = rng.randrange(3)
    return "\n".join([*parts[: at + 1], *parts[at:]])


def broken_reason(rng: random.Random, right: Right) -> str:
    return lines(right.verdict, f"{right.reason}{rng.choice(chr(10) + chr(0x2028) + chr(0x85) + chr(0x0C))}too", "0.5")


def cut(rng: random.Random, right: Right) -> str:
    """Cut before the confidence has begun."""
    whole = str(right)
    return whole[: rng.randrange(whole.rindex("Confidence") + len("Confidence:") + 1)]


def cased(rng: random.Random, right: Right) -> str:
    parts = [line.split(":", 1) for line in str(right).split("\n")]
    return "\n".join(f"{rng.choice([str.upper, str.lower, str.swapcase])(label)}:{rest}" for label, rest in parts)


def spaced(rng: random.Random, right: Right) -> str:
    space = (" ", "\t", "\u3000", "  ")
    parts = [f"{rng.choice(space)}{line}{rng.choice(space)}" for line in str(right).split("\n")]
    return rng.choice(["\n", "\r\n", "\n\n", "\n \t\n"]).join(parts)


def one_character(rng: random.Random, right: Right) -> str:
    """One character added, left out or replaced, anywhere."""
    whole, new = str(right), rng.choice("aP通不:：\n 0.9%*！\u200b\x00")
    at, taken = rng.randrange(len(whole)), rng.choice([0, 1, 1])
    return whole[:at] + rng.choice([new, ""]) + whole[at + taken :]


CHANGES: Mapping[str, tuple[Outcome, Change]] = {
    "labels in another case": ("the same", cased),
    "other space and line ends": ("the same", spaced),
    "wide colons": ("the same", lambda _rng, right: "\n".join(s.replace(":", "：", 1) for s in str(right).split("\n"))),
    "a final point after the verdict": ("the same", around_verdict("*.", "*。", "*!", "* ！")),
    "space inside the verdict": ("the same", lambda _rng, r: lines(" ".join(r.verdict), r.reason, r.confidence)),
    "wide letters in the verdict": ("the same", lambda _rng, r: lines(wide(r.verdict), r.reason, r.confidence)),
    "one line left out": ("malformed", without_a_line),
    "lines in another order": ("malformed", out_of_order),
    "a line twice": ("malformed", a_line_twice),
    "a line before or after": ("malformed", lambda rng, r: rng.choice(["Sure!\n*", "*\nThanks."]).replace("*", str(r))),
    "a code fence": ("malformed", put("```\n*\n```")),
    "two replies": ("malformed", put("*\n*")),
    "all on one line": ("malformed", lambda _rng, right: str(right).replace("\n", " ")),
    "bold labels": ("malformed", swap("Verdict:", "**Verdict:**")),
    "a list": ("malformed", lambda _rng, right: "\n".join(f"- {line}" for line in str(right).split("\n"))),
    "labels in Chinese": ("malformed", swap("Verdict", "结论")),
    "a label misspelled": ("malformed", swap("Confidence", "Confidance")),
    "no colon": ("malformed", swap("Verdict:", "Verdict")),
    "a negated verdict": ("malformed", around_verdict("not *", "不是*", "*不了", "non-*")),
    "both verdicts": ("malformed", verdict("pass/fail", "pass or fail", "通过/不通过", "pass fail")),
    "a verdict inflected": ("malformed", verdict("passed", "failed", "passes", "failing", "没通过", "通过了")),
    "a verdict of other words": ("malformed", verdict("ok", "yes", "合格", "不合格", "true", "reject", "", "1")),
    "letters of another alphabet": ("malformed", verdict("pаss", "fаil", "ρass")),
    "more after the verdict": ("malformed", around_verdict("* (sure)", "*, I think", "*!!", "*?", "[*]", '"*"')),
    "no reason": ("malformed", lambda rng, r: lines(r.verdict, rng.choice(["", " ", "\u3000"]), r.confidence)),
    "a reason of two lines": ("malformed", broken_reason),
    "a confidence out of range": ("malformed", confidence("1.5", "-0.1", "101", "120%", "1.01", "-5%", "2.5", "1e9")),
    "a confidence in words": ("malformed", confidence("high", "very sure", "九成", "NaN", "inf", "none", "")),
    "a confidence of another form": ("malformed", confidence("0,9", "9/10", "1e-1", "+0.9", "90 percent", "９０")),
    "cut before the confidence": ("malformed", cut),
    "one character changed": ("either", one_character),
}  # fmt: skip


def wide(text: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


@dataclass(frozen=True)
class Almost:
    """An almost right reply, what was changed, and the right reply that it was."""

    change: str
    right: Right
    text: str


def almost_right(count: int = REPLIES, seed: int = 13) -> Iterator[Almost]:
    """So many replies, the ways in turn; the last way has as many as five others, for it has many places."""
    rng, ways = random.Random(seed), [*CHANGES, *["one character changed"] * 4]
    for number in range(count):
        change = ways[number % len(ways)]
        right = Right(rng.choice(VERDICTS), rng.choice(REASONS), rng.choice(CONFIDENCES))
        yield Almost(change, right, CHANGES[change][1](rng, right))


def outcome(almost: Almost) -> str:
    """What became of a reply, against the right one."""
    found, right = parse_three_lines(almost.text), parse_three_lines(str(almost.right))
    if not isinstance(found, ThreeLines):
        return "malformed"
    assert isinstance(right, ThreeLines)
    if found == right:
        return "the same"
    return "other verdict" if found.verdict != right.verdict else "other reason or confidence"


def main() -> None:
    counts = Counter((almost.change, outcome(almost)) for almost in almost_right())
    heads = ("the same", "malformed", "other reason or confidence", "other verdict")
    print(f"| {'what is changed':34} | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for change in CHANGES:
        cells = [str(counts[change, head] or "").rjust(len(head)) for head in heads]
        print(f"| {change:34} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
