"""What the cpu queue finds for a guided run: plain values in, plain values out, so that both go through the store."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.guide.candidates import GuideCandidate, Signals
from tasks.guide.decoding import DecodeCell
from tasks.guide.eligibility import (
    AllWrongStrategy,
    EligibilityPolicy,
    GroupOutcome,
    Screening,
    outcome_of,
    screen,
)
from tasks.guide.gate import GateDecision, TicketScores, decide
from tasks.guide.selection import (
    SignalWeights,
    TicketSelection,
    TieBreak,
    TieRule,
    select_label_first,
    select_label_free,
)
from tasks.guide.signals import compute_signals
from tasks.guide.ticket import Ticket


@dataclass(frozen=True)
class TicketCandidates:
    """A ticket and all that the model answered to it."""

    ticket: Ticket
    candidates: tuple[GuideCandidate, ...]


@dataclass(frozen=True)
class BatchInput:
    """A batch of tickets, and the settings by which its candidates are measured, selected and screened."""

    groups: tuple[TicketCandidates, ...]
    grid: tuple[DecodeCell, ...]
    store_confidence: bool
    enable_consistency: bool
    tie_break: TieBreak
    weights: SignalWeights | None
    policy: EligibilityPolicy
    all_wrong_strategy: AllWrongStrategy


@dataclass(frozen=True)
class TicketFindings:
    """What was found of one ticket: the signals of its candidates, both selections, and how it did."""

    signals: tuple[Signals, ...]
    label_first: TicketSelection
    label_free: TicketSelection
    outcome: GroupOutcome


@dataclass(frozen=True)
class BatchFindings:
    """What was found of each ticket of a batch, in its order, and which of them to reflect on."""

    groups: tuple[TicketFindings, ...]
    screening: Screening


@dataclass(frozen=True)
class GateInput:
    """The arguments of `tasks.guide.gate.decide`."""

    before: tuple[TicketScores, ...]
    after: tuple[TicketScores, ...]
    apply_if_delta: float
    min_probability: float
    max_false_pass_rise: float
    seed: int


@dataclass(frozen=True)
class VerifyInput:
    """The candidates of a ticket for a verifier; `identity` is of its source (`tasks.guide.verifier`)."""

    verifier: str
    identity: str
    ticket: Ticket
    candidates: tuple[GuideCandidate, ...]


def find_in_batch(batch: BatchInput) -> BatchFindings:
    """Signals, selections and screening of a batch."""
    rule = TieRule(batch.tie_break, batch.grid, batch.weights)
    groups = tuple(_findings(group, batch, rule) for group in batch.groups)
    return BatchFindings(groups, screen([g.outcome for g in groups], batch.policy, batch.all_wrong_strategy))


def decide_gate(asked: GateInput) -> GateDecision:
    """Raises: ValueError for no tickets or other ones."""
    return decide(
        asked.before,
        asked.after,
        apply_if_delta=asked.apply_if_delta,
        min_probability=asked.min_probability,
        max_false_pass_rise=asked.max_false_pass_rise,
        seed=asked.seed,
    )


def _findings(group: TicketCandidates, batch: BatchInput, rule: TieRule) -> TicketFindings:
    ticket, candidates = group.ticket, group.candidates
    signals = compute_signals(
        ticket, candidates, store_confidence=batch.store_confidence, enable_consistency=batch.enable_consistency
    )
    first = select_label_first(ticket.label, candidates, signals, rule)
    free = select_label_free(ticket.label, candidates, signals, rule)
    return TicketFindings(signals, first, free, outcome_of(ticket.group_id, signals, free))
