"""What becomes of one batch's proposal: budgets, validity of its operations, uncertainty, the preview, the gate.

The preview asks the held-out tickets under the old and the new guidance with the same seeds.  What the old guidance
answered is in the store or the journal after its first preview; its jobs have the same keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from orchestrator.guide.reflecting import Proposed
from orchestrator.guide.rollouts import (
    MissionSetup,
    RolledOut,
    Rollout,
    Steps,
    longest_reply,
    measure_lengths,
    prompt_of,
)
from orchestrator.guide.settings import settings_hash
from orchestrator.guide.tally import APPLIED, gate_kind
from tasks.guide.candidates import Ticket
from tasks.guide.experiences import Guidance, guidance_hash
from tasks.guide.gate import GateDecision, decide
from tasks.guide.operations import Applied, apply_operations
from tasks.guide.selection import Screening
from tasks.store.keys import content_hash


@dataclass(frozen=True)
class Previewed:
    """Both rollouts of the held-out tickets, and what the gate decided."""

    before: RolledOut
    after: RolledOut
    decision: GateDecision


@dataclass(frozen=True)
class Reflection:
    """One line of reflection.jsonl in the making.  `gate` says what became of the proposal, in one word (`APPLIED`)."""

    setup: MissionSetup
    epoch: int
    step: int
    before: Guidance
    screening: Screening
    shown: tuple[str, ...]  # the tickets of the prompt, in its order
    proposed: Proposed | None = None
    applied: Applied | None = None
    previewed: Previewed | None = None
    gate: str = ""
    reason: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return reflection_id(self.setup, self.epoch, self.step)

    @property
    def is_applied(self) -> bool:
        return self.gate in APPLIED

    @property
    def operations(self) -> int:
        """How many were applied."""
        return len(self.applied.accepted) if self.is_applied and self.applied else 0

    def ended(self, gate: str, reason: str, **more: Any) -> Reflection:
        return replace(self, gate=gate, reason=reason, **more)

    def line(self, after: Guidance) -> dict[str, Any]:
        """`after` is the guidance that holds from here on."""
        proposed, applied = self.proposed, self.applied
        rejected = proposed.rejected if proposed else None
        ineligible = self.screening.ineligible_reason
        return {
            "reflection_id": self.id,
            "mission": self.setup.mission,
            "epoch": self.epoch,
            "step": self.step,
            "backend": self.setup.settings.reflection.backend,
            "by": proposed.by if proposed else None,
            "proposal": proposed.value() if proposed else None,
            "eligible": self.screening.eligible,
            **({"ineligible_reason": ineligible} if ineligible else {}),
            "applied": self.is_applied,
            "gate": self.gate,
            "gate_reason": self.reason,
            "figures": self._figures(),
            "guidance_step_before": self.before.step,
            "guidance_step_after": after.step,
            "guidance_hash_before": guidance_hash(self.before.experiences),
            "guidance_hash_after": guidance_hash(after.experiences),
            "accepted_operations": [asdict(one) for one in applied.accepted] if applied else [],
            "rejected_operations": [{"index": i, "reason": why} for i, why in applied.rejected] if applied else [],
            "experiences_proposed": dict(applied.experiences) if applied and applied.accepted else None,
            "bundle": list(self.screening.bundle),
            "shown": list(self.shown),
            "manual_review": list(self.screening.manual_review),
            "warnings": list(self.warnings),
            **({"rejected": {"reason": rejected.reason, "reply": proposed.text}} if proposed and rejected else {}),
        }

    def _figures(self) -> dict[str, Any] | None:
        if self.previewed is None:
            return None
        figures = asdict(self.previewed.decision)
        del figures["reason"]
        return {**figures, "tickets": len(self.setup.tickets.holdout)}


def reflection_id(setup: MissionSetup, epoch: int, step: int) -> str:
    """Names the reflection after a batch: equal in runs of equal settings."""
    return content_hash(settings_hash(setup.settings), setup.mission, epoch, step)[:16]


def decide_on(
    reflection: Reflection, proposed: Proposed, tickets: Sequence[Ticket], cap_left: int, longest: Sequence[Ticket]
) -> Steps[Reflection]:
    """What becomes of a proposal.

    tickets: those of its prompt, in their order.  cap_left: operations that the epoch may still apply.  longest: the
    tickets with the longest prompts; with the edit they must fit as well as the held-out ones.
    """
    setup, settings = reflection.setup, reflection.setup.settings
    reflection = _checked(replace(reflection, proposed=proposed), proposed, tickets, cap_left)
    if reflection.gate or reflection.applied is None:
        return reflection
    experiences = reflection.applied.experiences
    prompts = [prompt_of(setup, ticket, experiences) for ticket in (*setup.tickets.holdout, *longest)]
    lengths = yield from measure_lengths(setup, prompts, longest_reply(setup), f"edit{reflection.step}")
    if places := lengths.too_long():
        most = max(lengths.tokens[place] for place in places)
        fault = f"with it {len(places)} prompts or more exceed {lengths.most} tokens, the longest has {most}"
        return reflection.ended("too_long", fault)
    if (kind := gate_kind(settings)) != "preview":
        return reflection.ended(kind, "applied without a preview")
    previewed = yield from _preview(setup, reflection.before, experiences)
    return reflection.ended(previewed.decision.reason, _reason(previewed, setup), previewed=previewed)


def _preview(setup: MissionSetup, guidance: Guidance, experiences: Mapping[str, str]) -> Steps[Previewed]:
    """Ask the held-out tickets under the guidance and under the edited experiences, and decide."""
    settings, held_out = setup.settings, setup.tickets.holdout
    before = Rollout(setup, "before", guidance.experiences, guidance.step, held_out)
    after = Rollout(setup, "after", experiences, guidance.step + 1, held_out)
    results = yield [*before.requests, *after.requests]
    old, new = before.read(results), after.read(results)
    decision = decide(
        old.scores(),
        new.scores(),
        apply_if_delta=settings.reflection.apply_if_delta,
        min_probability=settings.holdout.min_probability,
        max_false_pass_rise=settings.holdout.max_false_pass_rise,
        seed=settings.runner.shuffle_seed,
    )
    return Previewed(old, new, decision)


def _checked(reflection: Reflection, proposed: Proposed, tickets: Sequence[Ticket], cap_left: int) -> Reflection:
    """The reflection with what its proposal would make of the experiences, or with why it makes nothing."""
    proposal, settings, before = proposed.proposal, reflection.setup.settings, reflection.before
    if proposal is None:
        return reflection.ended("rejected", proposed.rejected.reason if proposed.rejected else "")
    if proposal.action == "noop":
        return reflection.ended("noop", "the reflector proposes no edit")
    applied = apply_operations(
        before.experiences,
        before.metadata.highest,
        proposal.operations,
        max_operations=settings.reflection.max_operations,
        cap_left=cap_left,
        group_ids=[ticket.group_id for ticket in tickets],
        ticket_texts=[text for ticket in tickets for text in ticket.per_image.values()],
    )
    if not applied.accepted:
        reasons = "; ".join(dict.fromkeys(reason for _, reason in applied.rejected))
        return reflection.ended("invalid", reasons or "it has no operation", applied=applied)
    if proposal.uncertainty_note and not settings.reflection.allow_uncertain:
        return reflection.ended("uncertain", proposal.uncertainty_note, applied=applied)
    return replace(reflection, applied=applied)


def _reason(previewed: Previewed, setup: MissionSetup) -> str:
    decision, settings = previewed.decision, setup.settings
    rise = decision.false_pass_after - decision.false_pass_before
    return (
        f"uplift {decision.uplift:+.4f} (at least {settings.reflection.apply_if_delta:g}), "
        f"probability {decision.probability:.3f} (at least {settings.holdout.min_probability:g}), "
        f"false passes {rise:+.4f} (at most {settings.holdout.max_false_pass_rise:+g})"
    )
