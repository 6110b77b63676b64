"""Almost right replies of a model that judges tickets: each is read as it must be, or refused."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

from guide_replies import CHANGES, REPLIES, almost_right, outcome

from tasks.guide.verdict_lines import ThreeLines, parse_three_lines

NUMBER = re.compile(r"(?P<number>\d+\.?\d*|\.\d+)\s*(?P<percent>%)?", re.ASCII)


def second_opinion(text: str) -> tuple[str, str, float] | None:
    """The same reading, written another way: one expression over the lines that are left."""
    kept = "\n".join(line.strip() for line in text.splitlines() if line.strip())
    found = re.fullmatch(r"verdict\s*[:：](.*)\nreason\s*[:：](.+)\nconfidence\s*[:：](.*)", kept, re.I | re.A)
    if not found:
        return None
    word = re.sub(r"\s", "", unicodedata.normalize("NFKC", found[1])).lower()
    side = re.fullmatch(r"(?:(pass|通过)|(fail|不通过|未通过))[。.!]?", word)
    number = NUMBER.fullmatch(found[3].strip())
    if not side or not found[2].strip() or not number:
        return None
    value = float(number["number"])
    is_percentage = number["percent"] or (2 <= value <= 100 and "." not in number["number"])
    value = value / 100 if is_percentage else value
    return ("pass" if side[1] else "fail", found[2].strip(), value) if value <= 1 else None


def test_500_almost_right_replies_have_the_outcome_that_each_must_have(tried: Counter[str]) -> None:
    replies = list(almost_right())
    tried["three-line replies"] += len(replies)
    assert len(replies) == REPLIES
    found = Counter((almost.change, outcome(almost)) for almost in replies)
    for change, (wanted, _) in CHANGES.items():
        outcomes = {name for (kind, name) in found if kind == change}
        assert outcomes == {wanted} if wanted != "either" else outcomes >= {"the same", "malformed"}, change
    # and no change of one character turns a verdict into the other one, but the one that takes or adds 不
    turned = [a for a in replies if outcome(a) == "other verdict"]
    assert all({a.right.verdict, parse_verdict_word(a.text)} == {"通过", "不通过"} for a in turned)


def parse_verdict_word(text: str) -> str:
    return text.splitlines()[0].partition(":")[2].strip()


def test_a_second_reading_agrees_on_thousands() -> None:
    for almost in almost_right(4000, seed=14):
        found = parse_three_lines(almost.text)
        read = (found.verdict, found.reason, found.confidence) if isinstance(found, ThreeLines) else None
        assert read == second_opinion(almost.text), almost.text
