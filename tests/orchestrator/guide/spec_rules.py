"""The rules of guided judging once more, written from the specification alone; nothing here is the project's code."""

from __future__ import annotations

import hashlib
import json
import random
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Value = dict[str, Any]
Verdicts = Sequence[str | None]


@dataclass(frozen=True)
class Read:
    """A candidate as its text says; without a verdict it is malformed."""

    index: int
    temperature: float
    verdict: str | None
    reason: str | None
    confidence: float | None


Groups = dict[str, tuple[str, list[Read]]]
"""Of each ticket its label and its candidates."""


def read_candidate(line: Mapping[str, Any]) -> Read:
    """R13, of a line with a response_text."""
    verdict, reason, confidence = three_lines(line["response_text"]) or (None, None, None)
    return Read(line["candidate_index"], line["decode"]["temperature"], verdict, reason, confidence)


def three_lines(text: str) -> tuple[str, str, float] | None:
    lines = [part.strip() for part in text.splitlines() if part.strip()]
    found = [re.fullmatch(r"(\w+)\s*[:：](.*)", line) for line in lines]
    if [match and match[1].lower() for match in found] != ["verdict", "reason", "confidence"]:
        return None
    first, reason, last = (match[2].strip() for match in found if match)
    word = re.sub(r"\s", "", unicodedata.normalize("NFKC", first).lower())
    word = word[:-1] if word and word[-1] in "。.!！" else word
    verdict = {"pass": "pass", "通过": "pass", "fail": "fail", "不通过": "fail", "未通过": "fail"}.get(word)
    confidence = _confidence(last)
    return (verdict, reason, confidence) if verdict and reason and confidence is not None else None


def _confidence(text: str) -> float | None:
    if not (match := re.fullmatch(r"([0-9]*\.?[0-9]*)\s*(%?)", text)) or not re.search("[0-9]", text):
        return None
    value = float(match[1])
    if match[2] or (match[1].isdigit() and 2 <= value <= 100):
        value /= 100
    return value if value <= 1 else None


def signals(label: str, candidates: Sequence[Read], settings: Mapping[str, Any]) -> list[Value]:
    """R6 and the section on signals."""
    valid = [one.verdict for one in candidates if one.verdict]
    found = []
    for one in candidates:
        share = valid.count(one.verdict) / len(valid) if one.verdict and settings["enable_consistency"] else None
        found.append(
            {
                "label_match": None if one.verdict is None else one.verdict == label,
                "self_consistency": share,
                "candidate_agreement": None,
                "confidence": one.confidence if settings["store_confidence"] else None,
                "label_trust": None,
            }
        )
    return found


def selections(label: str, candidates: Sequence[Read], settings: Mapping[str, Any]) -> tuple[Read | None, Read | None]:
    """R1: label first, and label free."""
    measured = signals(label, candidates, settings["signals"])
    given = settings["signals"].get("weights") or {}

    def best(among: Iterable[Read], names: Sequence[str]) -> Read | None:
        def rank(one: Read) -> tuple[float, float, int]:
            tie = -(one.confidence or 0) if settings["selection"]["tie_break"] == "confidence" else one.temperature
            return tie, -sum(given.get(name, 0.0) * (measured[one.index][name] or 0.0) for name in names), one.index

        return min(among, key=rank, default=None)

    valid = [one for one in candidates if one.verdict]
    agreeing = [one for one in valid if one.verdict == label]
    others = ("self_consistency", "confidence")
    voted = majority([one.verdict for one in candidates])
    return (
        best(agreeing or valid, ("label_match", *others)),
        best([one for one in valid if one.verdict == voted], others),
    )


def majority(verdicts: Verdicts) -> str | None:
    """Of the valid ones; a tie goes to fail."""
    passed, failed = (sum(verdict == side for verdict in verdicts) for side in ("pass", "fail"))
    return None if passed + failed == 0 else "pass" if passed > failed else "fail"


def screened(groups: Groups, settings: Mapping[str, Any]) -> tuple[list[str], list[str], bool]:
    """R3 and R7: the bundle by priority, the tickets for manual review, and whether any ticket met the policy."""
    kinds: dict[str, str] = {}
    for group_id, (label, candidates) in groups.items():
        right = {one.verdict == label for one in candidates if one.verdict}
        wrong = majority([one.verdict for one in candidates]) != label
        kind = "mixed" if len(right) == 2 else "other" if right == {True} else "all wrong"
        policy = settings["reflection"]["eligibility_policy"]
        meets = {
            "selected_mismatch_or_all_wrong": wrong or kind == "all wrong",
            "contradictions_only": kind == "mixed",
            "contradictions_or_all_wrong": kind in ("mixed", "all wrong"),
        }[policy]
        if meets:
            kinds[group_id] = kind
    by_hand = settings["reflection"]["all_wrong_strategy"] == "manual_review"
    review = sorted(name for name, kind in kinds.items() if kind == "all wrong" and by_hand)
    order = ("mixed", "all wrong", "other")
    bundle = sorted(kinds.keys() - set(review), key=lambda name: (order.index(kinds[name]), name))
    return bundle, review, bool(kinds)


@dataclass(frozen=True)
class Edited:
    """The experiences after a proposal's valid operations, those as they were applied, and the others' places."""

    experiences: dict[str, str]
    highest: int
    accepted: list[Value]
    rejected: list[int]


def edited(
    experiences: Mapping[str, str],
    highest: int,
    proposal: Mapping[str, Any],
    most: int,
    bundle: Sequence[str],
    group_ids: Sequence[str],
    texts: Sequence[str],
) -> Edited:
    """R9; `most` operations are left by both budgets."""
    now, accepted, rejected = dict(experiences), list[Value](), list[int]()
    for place, asked in enumerate(proposal["operations"]):
        op, key, text = asked["op"], asked["key"], (asked["text"] or "").strip()
        named = [key for key in dict.fromkeys(asked["merged_from"]) if key in now] if op == "merge" else []
        evidence = list(dict.fromkeys(name for one in asked["evidence"] for name in _ticket(one, bundle)))
        others = [one for other, one in now.items() if other not in named]
        valid = place < most and bool(evidence)
        if op == "remove":
            valid &= key in now and len(now) > 1
        else:
            valid &= _may_be_said(text, others, group_ids, texts)
            valid &= key is None or key in (named if op == "merge" else now)
            valid &= op == "upsert" or len(named) > 1
        if not valid:
            rejected.append(place)
            continue
        for old in [key] if op == "remove" else named:
            del now[old]
        if op != "remove":
            highest += key is None
            key = key or f"G{highest}"
            now[key] = text
        made = {"key": key, "text": text if op != "remove" else None, "evidence": evidence, "merged_from": named}
        accepted.append({**asked, **made})
    return Edited(in_order(now), highest, accepted, rejected)


def _ticket(name: str, group_ids: Sequence[str]) -> list[str]:
    number = re.fullmatch(r"第\s*(\d+)\s*组", unicodedata.normalize("NFKC", name).strip())
    if number:
        return list(group_ids[int(number[1]) - 1 : int(number[1])]) if int(number[1]) else []
    return [name.strip()] if name.strip() in group_ids else []


def _may_be_said(text: str, others: Sequence[str], group_ids: Sequence[str], texts: Sequence[str]) -> bool:
    def plain(part: str) -> str:
        folded = unicodedata.normalize("NFKC", part).casefold()
        return "".join(one for one in folded if unicodedata.category(one)[0] not in "PZC")

    def sentences(whole: str) -> set[str]:
        return {plain(part) for part in re.split(r"[。！？!?\n\r]|\.\s|\.$", whole)} - {""}

    words = re.split(r"[^\w-]+", unicodedata.normalize("NFKC", text).casefold())
    return (
        0 < len(text) <= 300
        and text.isprintable()
        and plain(text) not in map(plain, others)
        and not re.search(r"第\s*\d+\s*组", text)
        and not any(unicodedata.normalize("NFKC", name).casefold() in words for name in group_ids)
        and not any(sentences(text) & sentences(other) for other in texts)
    )


def in_order(experiences: Mapping[str, str]) -> dict[str, str]:
    return {key: experiences[key] for key in sorted(experiences, key=lambda key: int(key[1:]))}


def hash_of(experiences: Mapping[str, str]) -> str:
    """R6, of canonical JSON: sorted keys, no spaces, UTF-8."""
    text = json.dumps(experiences, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


Sides = Sequence[tuple[str, Verdicts, Verdicts]]
"""Of each held-out ticket in order: its label, and the verdicts of its candidates before and after."""


def gate(sides: Sides, settings: Mapping[str, Any]) -> tuple[str, Value]:
    """R5: the outcome and its figures.  The resamples are as docs/guide.md says."""
    rises = [after.count(label) - before.count(label) for label, before, after in sides]
    uplift = Fraction(sum(rises), len(rises) * len(sides[0][1]))
    draw, places = random.Random(settings["runner"]["shuffle_seed"]), range(len(rises))
    risen = sum(sum(rises[place] for place in draw.choices(places, k=len(rises))) > 0 for _ in range(1000))

    def false_passes(which: int) -> Fraction:
        failing = [majority(side[which]) == "pass" for side in sides if side[0] == "fail"]
        return Fraction(sum(failing), max(1, len(failing)))

    before, after = false_passes(1), false_passes(2)
    holdout = settings["holdout"]
    bounds = {
        "uplift": uplift >= Fraction(str(settings["reflection"]["apply_if_delta"])),
        "probability": Fraction(risen, 1000) >= Fraction(str(holdout["min_probability"])),
        "false_pass": after - before <= Fraction(str(holdout["max_false_pass_rise"])),
    }
    figures = {
        "uplift": float(uplift),
        "probability": risen / 1000,
        "false_pass_before": float(before),
        "false_pass_after": float(after),
        "tickets": len(sides),
    }
    return next((name for name, holds in bounds.items() if not holds), "applied"), figures
