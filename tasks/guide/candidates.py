"""Candidates: what the model answered to one ticket, read as three lines, and what is measured of each."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.guide.verdict_lines import Malformed, Verdict, parse_three_lines

NO_VALID_CANDIDATE = "no_valid_candidate"  # the warning of a ticket without one


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
class Signals:
    """What is measured of one candidate; all None for a malformed one, and two of them for every one."""

    label_match: bool | None = None
    self_consistency: float | None = None  # the share of the ticket's valid candidates with the same verdict
    candidate_agreement: None = None
    confidence: float | None = None
    label_trust: None = None


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
