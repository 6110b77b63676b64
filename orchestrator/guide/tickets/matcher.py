"""Which planted rule a text states, in English or Chinese; and which distractor it takes for a fault.

A text states a rule when a clause of it says that the wrong value of the feature fails, or that the right one is
required.  Naming the feature alone, or saying that the wrong value passes, states nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from orchestrator.guide.tickets.plan import MissionPlan, PlantedRule

# A negated judgement is the other one; each becomes one plain word before a text is read.
_JUDGED = r"(?:pass\w*|accept\w*|allowed|permitted|ok|okay|compliant|correct)"
_DENIALS = tuple(
    (re.compile(pattern), meant)
    for pattern, meant in (
        (
            r"\b(?:do|does|did|should|must|will|can|is|are)? ?(?:not|n't|never) (?:be )?(?:a )?(?:fail|reject)\w*",
            " fine ",
        ),
        (r"(?:not|n't) (?:matter|count|affect\w*|relevant|important|a problem|an issue|a fault)", " fine "),
        (
            r"不(?:应|得|能|可|要|必)?(?:被)?(?:判|算|视为|判为)(?:为)?(?:不通过|未通过|不合格)|不影响|无关|没关系",
            "可以",
        ),
        (rf"\b(?:must|should|may|can) ?(?:not|n't|never)\b(?: be)?(?: (?:{_JUDGED}|use|have))?", " fail "),
        (rf"(?:\bnot|n't|\bnever) (?:be )?{_JUDGED}\b|\b(?:do not|don't) use\b|\bcannot\b|\bnever\b", " fail "),
        (r"不得|不允许|不应该?|不能|不可以?|禁止|不符合", "不合格"),
    )
)
_FAIL = re.compile(
    r"\bfail\w*|\breject\w*|\bunacceptable\b|\bavoid\w*|\bdefect\w*|\bviolat\w+|\bnon-?complian\w+|\bincorrect\w*|\bwrong\b"
    r"|\bforbidden\b|\bprohibited\b|不通过|未通过|不合格|避免|错误|违规|拒绝"
)
_REQUIRE = re.compile(
    r"\bmust\b|\bshould\b|\brequire\w*|\bneeds? to\b|\bonly\b|\bensure\b|\bverify\b|\bcheck (?:that|whether|if)\b"
    r"|\bconfirm\b|\bhas to\b|\bhave to\b|必须|应|须|需|只有|只能|要求|确保|确认"
)
_PASS = re.compile(
    r"\bpass\w*|\bacceptable\b|\ballowed\b|\bok(?:ay)?\b|\bfine\b|\bcorrect\b|\bcompliant\b|通过|合格|允许|符合|可以"
)
# Before a value, at most three words away; `unless` is anywhere before it.
_NEGATED = re.compile(
    r"(?:\b(?:not|no|without|other than|rather than|instead of|anything but|except)(?: \w+){0,3} ?|n't(?: \w+){0,3} ?"
    r"|\bunless\b.*|除非.*|不是|不为|并非|而非|非|未|没有|除了|而不是|不(?!通过|合格)\w{0,2})$"
)
_SENTENCE = re.compile(r"[.。!！;；?？\n]+|\botherwise\b|\belse\b|\bbut\b|\bhowever\b|否则|但是|但")
_CONDITION = re.compile(r"\s*(?:if|when|whenever|where|unless|in case|若|如果|如|当|只要)")
_OTHERWISE = re.compile(r"\botherwise\b|\belse\b|否则")


@dataclass(frozen=True)
class StatedRules:
    """Names of the planted rules that a text states, and of the distractors that it takes for faults."""

    rules: frozenset[str]
    distractors: frozenset[str]


def stated_rules(plan: MissionPlan, text: str) -> StatedRules:
    """What one text states of a mission's rules."""
    plain = _plain(text)
    stated: set[str] = set()
    denied: set[str] = set()
    misled: set[str] = set()
    feature: PlantedRule | None = None
    for clause in _clauses(plain):
        named = [rule for rule in plan.rules if _mentions(clause.text, rule.feature_terms)]
        feature = named[-1] if named else feature
        for rule in named or ([feature] if feature else []):
            for is_stated in _says(clause, rule):
                (stated if is_stated else denied).add(rule.name)
        for distractor in plan.distractors:
            if clause.fails and any(not negated for negated in _found(clause.text, distractor.terms)):
                misled.add(distractor.name)
    return StatedRules(frozenset(stated - denied), frozenset(misled))


def _plain(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    for denied, meant in _DENIALS:
        plain = denied.sub(meant, plain)
    return plain


def recalled_rules(plan: MissionPlan, texts: Iterable[str]) -> frozenset[str]:
    """The planted rules that some text of several states."""
    return frozenset(name for text in texts for name in stated_rules(plan, text).rules)


@dataclass(frozen=True)
class _Clause:
    """A part of a text with one judgement.  `or_fails`: what follows says that everything else fails."""

    text: str
    fails: bool
    requires: bool
    passes: bool
    or_fails: bool


def _clauses(text: str) -> Iterator[_Clause]:
    position = 0
    parts: list[tuple[str, str]] = []  # the mark before a part, and the part
    mark = ""
    for found in _SENTENCE.finditer(text):
        parts.append((mark, text[position : found.start()]))
        mark, position = found[0], found.end()
    parts.append((mark, text[position:]))
    parts = [(mark, part) for mark, part in parts if part.strip()]
    for number, (_, part) in enumerate(parts):
        following = parts[number + 1] if number + 1 < len(parts) else ("", "")
        or_fails = bool(_OTHERWISE.search(following[0])) and bool(_FAIL.search(following[1]))
        for piece in _pieces(part):
            rest = _FAIL.sub(" ", piece)
            fails = bool(_FAIL.search(piece))
            yield _Clause(piece, fails, bool(_REQUIRE.search(rest)), bool(_PASS.search(rest)) and not fails, or_fails)


def _pieces(sentence: str) -> list[str]:
    """A sentence cut at commas, so that each piece has a judgement: `fail if it is black, pass if it is green`."""
    pieces: list[str] = []
    waiting = ""  # a condition whose judgement is still to come
    for part in re.split(r"[,，、]", sentence):
        judged = _FAIL.search(part) or _REQUIRE.search(part) or _PASS.search(part)
        if judged and (waiting or not pieces or _PASS.search(part) or _FAIL.search(part)):
            pieces.append(f"{waiting} {part}" if waiting else part)
            waiting = ""
        elif not judged and (_CONDITION.match(part) or not pieces):
            waiting = f"{waiting} {part}" if waiting else part
        else:
            pieces[-1] += f" {part}"
    if waiting:
        pieces[-1:] = [f"{pieces[-1]} {waiting}"] if pieces else [waiting]
    return pieces


def _says(clause: _Clause, rule: PlantedRule) -> Iterator[bool]:
    """For each value in a clause: whether the clause states the rule with it (True) or the contrary (False)."""
    for negated in _found(clause.text, rule.wrong_terms):
        if (clause.fails and not negated) or (clause.requires and negated):
            yield True
        elif not negated and (clause.passes or clause.requires):
            yield False
    for negated in _found(clause.text, rule.right_terms):
        if (clause.fails and negated) or (
            not negated and not clause.fails and (clause.requires or (clause.passes and clause.or_fails))
        ):
            yield True
        elif clause.fails and not negated and not _found(clause.text, rule.wrong_terms):
            yield False


def _mentions(text: str, terms: tuple[str, ...]) -> bool:
    return _pattern(terms).search(text) is not None


def _found(text: str, terms: tuple[str, ...]) -> list[bool]:
    """For each place of a term: whether it is negated there."""
    return [bool(_NEGATED.search(text[: place.start()])) for place in _pattern(terms).finditer(text)]


@cache
def _pattern(terms: tuple[str, ...]) -> re.Pattern[str]:
    """Longer terms first.  English ones are whole words."""
    ordered = sorted(terms, key=len, reverse=True)
    return re.compile("|".join(rf"\b{re.escape(term)}\b" if term.isascii() else re.escape(term) for term in ordered))
