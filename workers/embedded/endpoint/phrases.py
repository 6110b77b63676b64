"""Which words of summaries go with which label: a count over tickets, for the rules of the embedded endpoint.

English is counted by words, Chinese by pieces of two to six characters.  What stands in a ticket counts once for it.
Phrases are compared by the log-likelihood ratio of their counts (Dunning 1993).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

PIECES = range(2, 7)  # characters
MOST_WORDS = 4  # of a phrase
LEAST_TICKETS, LEAST_RATIO = 2, 1.0

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
    """A ticket as a prompt shows it.  `group` is its name in the prompt, "" where it can be no evidence."""

    group: str
    label: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Separator:
    """Words that stand together in one sentence, and how many tickets of each label have them.

    `label` is the one with the larger share; `groups` are the tickets that show it and can be evidence.
    """

    words: tuple[str, ...]
    label: str
    counts: Mapping[str, tuple[int, int]]  # by label: tickets with the words, and all
    groups: tuple[str, ...]

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
    """The phrases that tell the labels apart, the best first; none where all tickets have one label.

    A phrase is in `LEAST_TICKETS` tickets, reaches `LEAST_RATIO`, and is shown by a ticket that can be evidence.
    """
    totals = {label: sum(ticket.label == label for ticket in tickets) for label in ("pass", "fail")}
    if not all(totals.values()):
        return []
    sentences = [[_units(part) for text in ticket.texts for part in _SENTENCE.findall(text)] for ticket in tickets]
    units = set(chain.from_iterable(chain.from_iterable(sentences)))
    found = {unit: _separator((unit,), tickets, sentences, totals) for unit in units}
    good = [s for s in found.values() if s.ratio >= LEAST_RATIO and s.groups and _tickets(s) >= LEAST_TICKETS]
    # Of pieces of one length of Chinese the longest is best; words are joined by those that always stand with them.
    good.sort(key=lambda s: (-s.ratio, -_tickets(s), -len(s.words[0]) if _CHINESE.match(s.words[0]) else 0, s.words))
    joined = (_separator(_joined(s.words[0], sentences), tickets, sentences, totals) for s in good)
    return list({frozenset(s.words): s for s in joined}.values())


def _units(sentence: str) -> tuple[str, ...]:
    """Words and pieces of Chinese in one sentence, in its order, each once."""
    words = (word for word in _WORD.findall(sentence.lower()) if word not in _COMMON)
    return tuple(dict.fromkeys(chain(words, _pieces(sentence))))


def _pieces(sentence: str) -> Iterator[str]:
    for run in _CHINESE.findall(sentence):
        for length in PIECES:
            for start in range(len(run) - length + 1):
                yield run[start : start + length]


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
    """The word with others that stand in every sentence in which it stands, in the order of the first of these.

    Of pieces of Chinese longer ones come first, and no two share a character.
    """
    having = [part for parts in sentences for part in parts if word in part]
    always = set(having[0]).intersection(*having) - {word}
    kept = [word]
    for other in sorted(always, key=lambda one: (-len(one) if _CHINESE.match(one) else 0, having[0].index(one))):
        overlaps = _CHINESE.match(other) and any(set(other) & set(one) for one in kept)
        if len(kept) < MOST_WORDS and not overlaps:
            kept.append(other)
    return tuple(sorted(kept, key=having[0].index))


def _tickets(separator: Separator) -> int:
    return sum(found for found, _ in separator.counts.values())
