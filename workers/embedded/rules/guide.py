"""The critic and the reflector of guide by rules, which count words.

The critic says whether the answer is the label, and how many words of its reason stand in the summaries.  The reflector
proposes one experience, of the words that best tell failing from passing tickets by the log-likelihood ratio of their
counts (Dunning 1993).  English is counted by words, Chinese by pieces of two to six characters.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from tasks.guide.experiences import normalised
from tasks.guide.prompts import prompt_language

PIECES = range(2, 7)  # characters
MOST_WORDS = 4  # of a phrase
LEAST_TICKETS, LEAST_RATIO = 2, 1.0
DUTY = 0.8  # the share of passing tickets that have the words; labels may be wrong

_IMAGE = re.compile(r'^- image_\d+: (".*")$', re.MULTILINE)
_EXPERIENCE = re.compile(r"^\[G\d+\]\. (.*)$", re.MULTILINE)
_SENTENCE = re.compile(r"[^.。!！?？;；\n]+")
_WORD = re.compile(r"[a-z0-9][a-z0-9'-]*")
_CHINESE = re.compile("[\u4e00-\u9fff]+")
# Words that stand in any sentence.
_COMMON = frozenset(
    _WORD.findall(
        """a an the this that these those it its is are was were be been being has have had do does did of in on at to
        from by with for and or but as not no there here one two which who what when where all each any some more most
        other than into over under up down out also can will may"""
    )
)


@dataclass(frozen=True)
class LabelledTicket:
    """A ticket as a prompt shows it."""

    group: str  # its name in the prompt, "" where it can be no evidence
    label: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Separator:
    """Words that stand together in one sentence, and how many tickets of each label have them."""

    words: tuple[str, ...]
    label: str  # the one with the larger share
    counts: Mapping[str, tuple[int, int]]  # by label: tickets with the words, and all
    groups: tuple[str, ...]  # tickets that show it and can be evidence

    @property
    def tickets(self) -> int:
        return sum(found for found, _ in self.counts.values())

    @property
    def ratio(self) -> float:
        """The log-likelihood ratio: how much better two shares explain the counts than one share for both labels."""
        found, total = (sum(one) for one in zip(*self.counts.values(), strict=True))
        return 2 * sum(
            count * math.log(count / (of * all_of / total))
            for having, of in self.counts.values()
            for count, all_of in ((having, found), (of - having, total - found))
            if count
        )


def content_words(text: str) -> frozenset[str]:
    """The words of a text that say something, in lower case; of Chinese, all pieces of two characters."""
    words = {word for word in _WORD.findall(text.lower()) if word not in _COMMON}
    runs = _CHINESE.findall(text)
    return frozenset(words | {run[i : i + 2] for run in runs for i in range(len(run) - 1)})


def separators(tickets: Sequence[LabelledTicket]) -> list[Separator]:
    """The phrases that tell the labels apart, the best first; none where all tickets have one label."""
    totals = {label: sum(ticket.label == label for ticket in tickets) for label in ("pass", "fail")}
    if not all(totals.values()):
        return []
    sentences = [[_units(part) for text in ticket.texts for part in _SENTENCE.findall(text)] for ticket in tickets]
    units = set(chain.from_iterable(chain.from_iterable(sentences)))
    found = {unit: _separator((unit,), tickets, sentences, totals) for unit in units}
    good = [s for s in found.values() if s.ratio >= LEAST_RATIO and s.groups and s.tickets >= LEAST_TICKETS]
    # Of pieces of one length of Chinese the longest is best; words are joined by those that always stand with them.
    good.sort(key=lambda s: (-s.ratio, -s.tickets, -len(s.words[0]) if _CHINESE.match(s.words[0]) else 0, s.words))
    joined = (_separator(_joined(s.words[0], sentences), tickets, sentences, totals) for s in good)
    return list({frozenset(s.words): s for s in joined}.values())


def _units(sentence: str) -> tuple[str, ...]:
    """Words and pieces of Chinese in one sentence, in its order, each once."""
    words = (word for word in _WORD.findall(sentence.lower()) if word not in _COMMON)
    runs = _CHINESE.findall(sentence)
    pieces = (run[i : i + length] for run in runs for length in PIECES for i in range(len(run) - length + 1))
    return tuple(dict.fromkeys(chain(words, pieces)))


def _separator(
    words: tuple[str, ...],
    tickets: Sequence[LabelledTicket],
    sentences: Sequence[Sequence[tuple[str, ...]]],
    totals: Mapping[str, int],
) -> Separator:
    wanted = set(words)
    having = [t for t, parts in zip(tickets, sentences, strict=True) if any(wanted <= set(part) for part in parts)]
    counts = {label: (sum(t.label == label for t in having), total) for label, total in totals.items()}
    label = max(sorted(counts), key=lambda one: counts[one][0] / counts[one][1])
    groups = tuple(t.group for t in having if t.group and t.label == label)
    return Separator(words, label, counts, groups)


def _joined(word: str, sentences: Sequence[Sequence[tuple[str, ...]]]) -> tuple[str, ...]:
    """The word with others that stand in every sentence in which it stands, in the order of the first of these."""
    having = [part for parts in sentences for part in parts if word in part]
    always = set(having[0]).intersection(*having) - {word}
    kept = [word]
    for other in sorted(always, key=lambda one: (-len(one) if _CHINESE.match(one) else 0, having[0].index(one))):
        # Of pieces of Chinese longer ones come first, and no two share a character.
        overlaps = _CHINESE.match(other) and any(set(other) & set(one) for one in kept)
        if len(kept) < MOST_WORDS and not overlaps:
            kept.append(other)
    return tuple(sorted(kept, key=having[0].index))


def critique(_: str, user: str) -> dict[str, Any]:
    """The reply to `critic_messages`."""
    with_signals = (line for line in user.split("\n") if line.startswith("{") and '"signals"' in line)
    candidate = json.loads(next(with_signals, "null"))
    summaries = " ".join(str(json.loads(text)) for text in _IMAGE.findall(user))
    if not summaries or candidate is None:
        raise ValueError("the prompt has no summaries, or no answer with signals")
    verdict, is_right = candidate["verdict"], candidate["signals"]["label_match"]
    label = verdict if is_right else {"pass": "fail", "fail": "pass"}[verdict]
    words = content_words(candidate["reason"] or "")
    shared = words & content_words(summaries)
    return {
        "summary": f"The answer is {verdict} and the label is {label}: {'right' if is_right else 'wrong'}.",
        "critique": f"{len(shared)} of {len(words)} words of the reason stand in the summaries.",
        **dict.fromkeys(("root_cause", "issues", "candidate_ops", "uncertainty_note")),
    }


def propose(_: str, user: str) -> dict[str, Any]:
    """The reply to `proposal_messages`."""
    tickets = _shown_tickets(user)
    if not any(ticket.group for ticket in tickets):
        raise ValueError("the prompt has no tickets to reflect on")
    known = {normalised(text) for text in _EXPERIENCE.findall(user)}
    reply: dict[str, Any] = {
        "action": "noop",
        "summary": "No words that are not in an experience yet tell failing from passing tickets.",
        "critique": None,
        "operations": [],
        "evidence_group_ids": [],
        "uncertainty_note": None,
    }
    for found in separators(tickets):
        text = _experience(found)
        if text is None or normalised(text) in known:
            continue
        counts = ", ".join(f"{n} of {total} tickets with label {name}" for name, (n, total) in found.counts.items())
        evidence = list(found.groups)
        operation = {"op": "upsert", "key": None, "text": text, "rationale": f"The words stand in {counts}."}
        return reply | {
            "action": "refine",
            "summary": f"The words that best tell the labels apart: {', '.join(found.words)}.",
            "critique": f"They stand in {counts}.",
            "operations": [{**operation, "evidence": evidence, "merged_from": []}],
            "evidence_group_ids": evidence,
        }
    return reply


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


def _shown_tickets(user: str) -> list[LabelledTicket]:
    """The lines that are tickets: of the bundle with a group, and those for comparison without."""
    found = []
    for line in user.split("\n"):
        if line.startswith("{") and '"images"' in line:
            data = json.loads(line.removesuffix(","))
            texts = tuple(str(text) for text in data["images"].values())
            found.append(LabelledTicket(str(data.get("group", "")), str(data["label"]), texts))
    return found
