"""What is learned from one batch: critiques, one proposal, and what becomes of it.

In this order: budgets, validity of the operations, uncertainty, the lengths of prompts, the preview, the gate.  The
preview asks the held-out tickets under the old and the new guidance with the same seeds.  What the old guidance
answered is in the store or the journal after its first preview; its jobs have the same keys.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from typing import Any

from orchestrator.guide.figures import APPLIED, Tally, gate_kind
from orchestrator.guide.rollouts import (
    JudgedTickets,
    MissionSetup,
    RolledOut,
    Rollout,
    Steps,
    StepStopped,
    as_request,
    find_too_long,
    longest_reply,
)
from orchestrator.guide.settings import CriticSettings, ReflectionSettings
from tasks.guide.choose import TicketFindings
from tasks.guide.critique import (
    Critique,
    UnusableReply,
    critic_messages,
    narrowed_critique,
    parse_critique,
)
from tasks.guide.experiences import Applied, apply_operations, next_guidance, resolve_evidence
from tasks.guide.gate import GateDecision, decide
from tasks.guide.jobs import AskedFor, ask_job
from tasks.guide.prompts import Messages
from tasks.guide.proposal import (
    Critiques,
    GuideProposal,
    narrowed_schema,
    parse_proposal,
    proposal_messages,
    solved_before,
)
from tasks.guide.ticket import GuideCandidate, Ticket

REPLY_SHOWN = 2000  # characters of an unusable reply that artifacts keep
MOST_REJECTED = 5  # unusable replies in a row, before the run parks

Place = tuple[str, int]
"""A candidate of a batch, by group id and index."""
Extras = Mapping[Place, Mapping[str, Any]]
"""Further fields of the lines of candidates."""


class TooManyRejected(Exception):
    """So many replies in a row could not be used that the run parks.  `replies` counts those of the mission so far."""

    def __init__(self, message: str, replies: int) -> None:
        super().__init__(message)
        self.replies = replies


@dataclass(frozen=True)
class Proposed:
    """The reply to a batch: a proposal, or why it cannot be used.  `text` is its beginning, as it came."""

    proposal: GuideProposal | None
    rejected: UnusableReply | None
    text: str
    by: str


@dataclass(frozen=True)
class Decision:
    """What became of a batch's proposal: `gate` in one word (`APPLIED`), and why.

    `applied` is what its operations make of the experiences; `preview` has both rollouts of the held-out tickets.
    """

    gate: str
    reason: str
    proposed: Proposed | None = None
    applied: Applied | None = None
    preview: tuple[RolledOut, ...] = ()
    figures: GateDecision | None = None

    @property
    def edit(self) -> Applied | None:
        """The edit that is applied."""
        return self.applied if self.gate in APPLIED else None


@dataclass
class MissionReflector:
    """Asks critic and reflector for one mission, and counts what they reply."""

    setup: MissionSetup
    tally: Tally
    _replies: int = 0
    _unusable: Counter[AskedFor] = field(default_factory=Counter)  # in a row

    def criticise(self, judged: JudgedTickets) -> Steps[tuple[Critiques, Extras]]:
        """Critiques of the candidates of a batch, and what they add to their lines; none where the critic is off."""
        critic, template = self.setup.settings.critic, self.setup.templates.critic
        if template is None:
            return {}, {}
        caps = {"summary_max_chars": critic.summary_max_chars, "critique_max_chars": critic.critique_max_chars}
        focus, experiences = self.setup.focus, judged.rollout.guidance.experiences
        prompts = {
            (found.ticket.group_id, one.index): critic_messages(template, focus, experiences, found, one, **caps)
            for found in judged.tickets
            for one in chosen_candidates(found, critic)
        }
        schema = narrowed_critique([*experiences], **caps) if critic.backend == "target" else None
        replies = yield from self._ask("critique", list(prompts.values()), schema, critic, judged)
        critiques: dict[Place, Critique] = {}
        extras: dict[Place, Mapping[str, Any]] = {}
        for place, reply in zip(prompts, replies, strict=True):
            rejected = None
            try:
                read = parse_critique(reply["text"], reply["finish"], **caps)
                critiques[place] = read
                said = {name: value for name, value in asdict(read).items() if value is not None}
                extras[place] = {"critic": said, "critic_by": reply["by"]}
            except UnusableReply as error:
                rejected = error
                shown = {"reason": str(error), "reply": reply["text"][:REPLY_SHOWN]}
                extras[place] = {"warnings": ["critic_rejected"], "critic_by": reply["by"], "critic_rejected": shown}
            self.tally.add_critique(reply, is_rejected=rejected is not None)
            self._count("critique", rejected)
        return critiques, extras

    def reflect(self, judged: JudgedTickets, critiques: Critiques, cap_left: int) -> Steps[Decision]:
        """What becomes of a batch; `cap_left` operations may still be applied in the epoch."""
        if not judged.shown:
            return Decision("ineligible", judged.screening.ineligible_reason or "")
        if cap_left < 1:
            return Decision("budget", "the epoch's change_cap_per_epoch is spent; nothing was asked")
        proposed = yield from self._propose(judged, critiques)
        self.tally.add_evidence(_evidence(proposed.proposal, judged.shown), judged.rollout.epoch or 0)
        decision = self._checked(judged, proposed, cap_left)
        if decision.gate or decision.applied is None:
            return decision
        return (yield from self._decide(judged.rollout, decision, decision.applied))

    def _propose(self, judged: JudgedTickets, critiques: Critiques) -> Steps[Proposed]:
        """One proposal.  In what is left of the prompt, tickets that were judged right are shown as contrast."""
        setup, reflection = self.setup, self.setup.settings.reflection
        by_id = {found.ticket.group_id: found for found in judged.tickets}
        bundle = [by_id.pop(group_id) for group_id in judged.shown]
        right = [found for found in by_id.values() if found.label_free.label_match]
        right.sort(key=lambda found: (found.kind != "all_right", found.ticket.group_id))
        contrast = alternating([found.ticket for found in right], reflection.batch_size - len(bundle))
        template, experiences = setup.templates.reflection, judged.rollout.guidance.experiences
        messages = proposal_messages(
            template, setup.focus, experiences, bundle, critiques, contrast, reflection.max_operations
        )
        schema = None
        if reflection.backend == "target":
            # A small model proposes edits that cannot be applied, unless its grammar has none, and needs an example.
            schema = narrowed_schema(list(experiences), len(bundle), reflection.max_operations)
            messages = solved_before(messages, template, setup.focus)
        [reply] = yield from self._ask("proposal", [messages], schema, reflection, judged)
        proposal, rejected = None, None
        try:
            proposal = parse_proposal(reply["text"], reply["finish"])
        except UnusableReply as error:
            rejected = error
        self.tally.add_proposal(reply, is_refine=proposal is not None and proposal.action == "refine")
        self._count("proposal", rejected)
        return Proposed(proposal, rejected, reply["text"][:REPLY_SHOWN], reply["by"])

    def _checked(self, judged: JudgedTickets, proposed: Proposed, cap_left: int) -> Decision:
        """What the proposal would make of the experiences, without a gate yet; or why it makes nothing."""
        proposal, settings, guidance = proposed.proposal, self.setup.settings.reflection, judged.rollout.guidance
        if proposal is None:
            return Decision("rejected", str(proposed.rejected), proposed)
        if proposal.action == "noop":
            return Decision("noop", "the reflector proposes no edit", proposed)
        tickets = [found.ticket for found in judged.tickets if found.ticket.group_id in judged.shown]
        applied = apply_operations(
            guidance.experiences,
            guidance.metadata.highest,
            proposal.operations,
            max_operations=settings.max_operations,
            cap_left=cap_left,
            group_ids=judged.shown,
            ticket_texts=[text for ticket in tickets for text in ticket.per_image.values()],
        )
        if not applied.accepted:
            reasons = "; ".join(dict.fromkeys(reason for _, reason in applied.rejected))
            return Decision("invalid", reasons or "it has no operation", proposed, applied)
        if proposal.uncertainty_note and not settings.allow_uncertain:
            return Decision("uncertain", proposal.uncertainty_note, proposed, applied)
        return Decision("", "", proposed, applied)

    def _decide(self, rollout: Rollout, decision: Decision, applied: Applied) -> Steps[Decision]:
        """Whether a valid edit is applied: every prompt must fit with it, and the held-out tickets decide."""
        setup, settings, held_out = self.setup, self.setup.settings, self.setup.tickets.holdout
        guidance = rollout.guidance
        edited = next_guidance(guidance, applied, "", "")
        prompts = Rollout(setup, "after", edited, setup.tickets.judged).prompts
        most, too_long = yield from find_too_long(setup, prompts, longest_reply(setup), f"edit{rollout.step}")
        if too_long:
            fault = f"with it {len(too_long)} prompts exceed {most} tokens, the longest has {max(too_long.values())}"
            return dataclasses.replace(decision, gate="too_long", reason=fault)
        if (kind := gate_kind(settings)) != "preview":
            return dataclasses.replace(decision, gate=kind, reason="applied without a preview")
        before, after = Rollout(setup, "before", guidance, held_out), Rollout(setup, "after", edited, held_out)
        results = yield [*before.requests, *after.requests]
        preview = before.read(results), after.read(results)
        bounds = settings.reflection.apply_if_delta, settings.holdout.min_probability
        rise = settings.holdout.max_false_pass_rise
        found = decide(
            *(one.scores() for one in preview),
            apply_if_delta=bounds[0],
            min_probability=bounds[1],
            max_false_pass_rise=rise,
            seed=settings.runner.shuffle_seed,
        )
        reason = (
            f"uplift {found.uplift:+.4f} (at least {bounds[0]:g}), "
            f"probability {found.probability:.3f} (at least {bounds[1]:g}), "
            f"false passes {found.false_pass_after - found.false_pass_before:+.4f} (at most {rise:+g})"
        )
        return dataclasses.replace(decision, gate=found.reason, reason=reason, preview=preview, figures=found)

    def _ask(
        self,
        asked_for: AskedFor,
        prompts: Sequence[Messages],
        schema: Mapping[str, Any] | None,
        how: CriticSettings | ReflectionSettings,
        judged: JudgedTickets,
    ) -> Steps[list[Mapping[str, Any]]]:
        """The replies to prompts, in their order."""
        setup, settings, label = self.setup, self.setup.settings, f"step{judged.rollout.step}"
        seed = settings.endpoint.seed if settings.endpoint else None
        if how.backend == "target":
            seed = settings.runner.shuffle_seed
            most, too_long = yield from find_too_long(setup, prompts, how.max_new_tokens, f"{asked_for}-{label}")
            if too_long:
                section = "critic" if asked_for == "critique" else "reflection"
                raise StepStopped(
                    f"mission {setup.mission}: {label}: a prompt for a {asked_for} has {max(too_long.values())} "
                    f"tokens, more than {most}, which is the model's context less {section}.max_new_tokens"
                    + (" (a smaller reflection.batch_size shows fewer tickets)" if section == "reflection" else "")
                )
        requests = [
            as_request(
                ask_job(
                    setup.context,
                    how.backend,
                    asked_for,
                    messages,
                    schema,
                    temperature=how.temperature,
                    top_p=how.top_p,
                    max_new_tokens=how.max_new_tokens,
                    seed=seed,
                    label=setup.label(asked_for, label, number),
                )
            )
            for number, messages in enumerate(prompts)
        ]
        results = yield requests
        return [results[request.key] for request in requests]

    def _count(self, asked_for: AskedFor, rejected: UnusableReply | None) -> None:
        """A reflector that is never understood would otherwise look like one that has nothing to say.

        Where the mission has parked before, it begins anew, so that a retry goes on.
        """
        self._replies += 1
        self._unusable[asked_for] = self._unusable[asked_for] + 1 if rejected else 0
        if self._unusable[asked_for] >= MOST_REJECTED:
            self._unusable[asked_for] = 0
            if self._replies not in self.setup.parked_at:
                raise TooManyRejected(
                    f"mission {self.setup.mission}: {MOST_REJECTED} replies in a row could not be used as a "
                    f"{asked_for}, the last one because {rejected}",
                    self._replies,
                )


def chosen_candidates(found: TicketFindings, critic: CriticSettings) -> list[GuideCandidate]:
    """The valid candidates of a ticket that are criticised.

    With `prefilter.top_k` only so many: wrong ones first, then by confidence, then by index.
    """
    valid = [candidate for candidate in found.candidates if candidate.verdict is not None]
    if critic.prefilter and critic.prefilter.top_k is not None:
        valid.sort(key=lambda c: (c.verdict == found.ticket.label, -(c.confidence or 0.0), c.index))
        valid = valid[: critic.prefilter.top_k]
    return valid[: critic.max_candidates]


def alternating(tickets: Sequence[Ticket], most: int) -> list[Ticket]:
    """So many tickets of both labels in turn, beginning with a pass; in their order within a label."""
    passed, failed = ([ticket for ticket in tickets if ticket.label == label] for label in ("pass", "fail"))
    mixed = [ticket for pair in zip_longest(passed, failed) for ticket in pair if ticket is not None]
    return mixed[:most]


def _evidence(proposal: GuideProposal | None, shown: Sequence[str]) -> tuple[str, ...]:
    """The tickets that a proposal names for its edits, of those that it was shown."""
    if proposal is None or proposal.action == "noop":
        return ()
    operations = [name for operation in proposal.operations for name in operation.evidence]
    return resolve_evidence([*proposal.evidence_group_ids, *operations], shown)
