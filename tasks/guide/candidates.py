"""Tickets, and candidates: what the model answers to one in each cell of a grid, read as three lines, and measured.

A ticket is a group of images, of each of which there is a summary, and the label that people gave it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.guide.verdict_lines import Malformed, Verdict, parse_three_lines

NO_VALID_CANDIDATE = "no_valid_candidate"  # the warning of a ticket without one
_SEEDS = 2**31 - 2**16  # so that the seeds of 65,536 samples of a cell fit in 31 bits


_IMAGE = re.compile(r"image_([0-9]{1,9})")


@dataclass(frozen=True)
class Ticket:
    """One ticket of one mission.  `per_image` has the summaries by image, in the order of the images' numbers."""

    group_id: str
    mission: str
    label: Verdict
    per_image: Mapping[str, str]
    label_source: str | None = None
    label_timestamp: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "per_image", sorted_images(self.per_image))


def image_number(key: str) -> int:
    """The number of an image: 10 of `image_10`."""
    found = _IMAGE.fullmatch(key)
    if found is None:
        raise ValueError(f"{key!r} is not image_ and a number")
    return int(found[1])


def sorted_images(summaries: Mapping[str, str]) -> dict[str, str]:
    """The same summaries, `image_2` before `image_10`."""
    return dict(sorted(summaries.items(), key=lambda item: (image_number(item[0]), item[0])))


@dataclass(frozen=True)
class DecodeCell:
    """One way of sampling.  Sample j uses the cell's seed + j; without `seed` the cell has one for each ticket."""

    temperature: float
    top_p: float
    max_new_tokens: int
    seed: int | None = None
    stop: tuple[str, ...] = ()

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0


def samples_of(cell: DecodeCell, samples_per_decode: int) -> int:
    """How many candidates a cell gives: greedy ones are all alike, and so there is one."""
    return 1 if cell.is_greedy else samples_per_decode


def rollout_seed(cell: DecodeCell, run_seed: int, epoch: int, group_id: str, cell_index: int) -> int:
    """The seed of sample 0 of a ticket in an epoch: that of the cell, or one of its own."""
    if cell.seed is not None:
        return cell.seed
    return _hashed("rollout", run_seed, epoch, group_id, cell_index)


def preview_seed(cell: DecodeCell, run_seed: int, group_id: str, cell_index: int) -> int:
    """The seed of sample 0 of a ticket in every preview and test: equal in all epochs and under all guidance."""
    return _hashed("preview", run_seed, cell.seed, group_id, cell_index)


@dataclass(frozen=True)
class GuideCandidate:
    """One answer.  `index` counts over all cells of the grid, `sample` within the cell; `seed` is the sample's own.

    A malformed answer has no verdict, reason and confidence, and a warning that says what is wrong.
    """

    index: int
    cell: int
    sample: int
    seed: int
    text: str
    tokens: int
    finish: str
    format_ok: bool
    verdict: Verdict | None
    reason: str | None
    confidence: float | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class TicketCandidates:
    """A ticket and all that the model answered to it."""

    ticket: Ticket
    candidates: tuple[GuideCandidate, ...]


def read_candidate(
    index: int, cell: int, sample: int, seed: int, text: str, tokens: int, finish: str
) -> GuideCandidate:
    """The candidate of an answer.  One that was cut after three whole lines is valid, and has a warning."""
    lines = parse_three_lines(text)
    cut = ("cut: length",) if finish == "length" else ()
    if isinstance(lines, Malformed):
        warnings = (f"malformed: {lines.reason}", *cut)
        return GuideCandidate(index, cell, sample, seed, text, tokens, finish, False, None, None, None, warnings)
    verdict, reason, confidence = lines.verdict, lines.reason, lines.confidence
    return GuideCandidate(index, cell, sample, seed, text, tokens, finish, True, verdict, reason, confidence, cut)


@dataclass(frozen=True)
class Signals:
    """What is measured of one candidate; all None for a malformed one, and two of them for every one."""

    label_match: bool | None = None
    self_consistency: float | None = None  # the share of the ticket's valid candidates with the same verdict
    candidate_agreement: None = None
    confidence: float | None = None
    label_trust: None = None


def compute_signals(
    ticket: Ticket, candidates: Sequence[GuideCandidate], *, store_confidence: bool, enable_consistency: bool
) -> tuple[Signals, ...]:
    """The signals of each candidate, in their order."""
    votes = Counter(candidate.verdict for candidate in candidates if candidate.verdict is not None)

    def measured(candidate: GuideCandidate) -> Signals:
        if candidate.verdict is None:
            return Signals()
        return Signals(
            label_match=candidate.verdict == ticket.label,
            self_consistency=votes[candidate.verdict] / votes.total() if enable_consistency else None,
            confidence=candidate.confidence if store_confidence else None,
        )

    return tuple(measured(candidate) for candidate in candidates)


def _hashed(*parts: object) -> int:
    text = json.dumps(parts, ensure_ascii=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % _SEEDS
