"""Which tickets of a batch are reflected on, by their candidates and the label-free selection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tasks.guide.candidates import Signals
from tasks.guide.selection import TicketSelection

EligibilityPolicy = Literal["selected_mismatch_or_all_wrong", "contradictions_only", "contradictions_or_all_wrong"]
AllWrongStrategy = Literal["reflect_diagnose", "manual_review"]
GroupKind = Literal["mixed", "all_wrong", "all_right"]

PRIORITY: tuple[GroupKind, ...] = ("mixed", "all_wrong", "all_right")  # what is first in a reflection's prompt
NONE_MEETS_POLICY = "no ticket meets the eligibility policy"
ONLY_MANUAL_REVIEW = "every ticket that meets the eligibility policy is for manual review"
NOT_BY_POLICY = "not by the eligibility policy"
MANUAL_REVIEW = "all wrong, for manual review"


@dataclass(frozen=True)
class GroupOutcome:
    """How a ticket's candidates did.  Without a valid candidate it is all wrong.

    A ticket whose selection is wrong is mixed or all wrong: the majority of right candidates is right.
    """

    group_id: str
    kind: GroupKind
    is_selected_wrong: bool


@dataclass(frozen=True)
class Screening:
    """The tickets to reflect on, in the order of priority and then of group ids, and why each other one is not."""

    bundle: tuple[str, ...]
    eligible: bool
    ineligible_reason: str | None
    manual_review: tuple[str, ...]
    left_out: Mapping[str, str]


def outcome_of(group_id: str, signals: Sequence[Signals], label_free: TicketSelection) -> GroupOutcome:
    """The outcome of one ticket, from the signals of all its candidates."""
    matches = {signal.label_match for signal in signals} - {None}
    kind: GroupKind = "mixed" if len(matches) == 2 else "all_right" if True in matches else "all_wrong"
    return GroupOutcome(group_id, kind, not label_free.label_match)


def screen(
    groups: Sequence[GroupOutcome], policy: EligibilityPolicy, all_wrong_strategy: AllWrongStrategy
) -> Screening:
    """The tickets of a batch that meet the policy, less those that people are to look at."""
    meeting = [group for group in groups if _meets(group, policy)]
    by_hand = {g.group_id for g in meeting if g.kind == "all_wrong" and all_wrong_strategy == "manual_review"}
    bundle = [group for group in meeting if group.group_id not in by_hand]
    bundle.sort(key=lambda group: (PRIORITY.index(group.kind), group.group_id))
    kept = {group.group_id for group in bundle}
    left_out = {
        group.group_id: MANUAL_REVIEW if group.group_id in by_hand else NOT_BY_POLICY
        for group in groups
        if group.group_id not in kept
    }
    reason = None if bundle else ONLY_MANUAL_REVIEW if meeting else NONE_MEETS_POLICY
    return Screening(tuple(g.group_id for g in bundle), bool(bundle), reason, tuple(sorted(by_hand)), left_out)


def pack(bundle: Sequence[str], batch_size: int) -> tuple[str, ...]:
    """The tickets of a bundle that one prompt holds: the first ones."""
    return tuple(bundle[:batch_size])


def _meets(group: GroupOutcome, policy: EligibilityPolicy) -> bool:
    if policy == "contradictions_only":
        return group.kind == "mixed"
    if policy == "contradictions_or_all_wrong":
        return group.kind in ("mixed", "all_wrong")
    return group.is_selected_wrong or group.kind == "all_wrong"
