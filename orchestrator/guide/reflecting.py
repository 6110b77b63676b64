"""What is learned from one batch: critiques, one proposal, and what becomes of it.

In this order: budgets, validity of the operations, uncertainty, the lengths of prompts, the preview, the gate.  The
preview asks the held-out tickets under the old and the new guidance with the same seeds.  What the old guidance
answered is in the store or the journal after its first preview; its jobs have the same keys.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import zip_longest
from typing import Any

from orchestrator.farm.work import Request
from orchestrator.guide.rollouts import MissionSetup, RolledOut, Rollout, Steps, StepStopped, find_too_long
from orchestrator.guide.settings import CriticSettings, ReflectionSettings
from orchestrator.guide.tally import APPLIED
from tasks.guide.choose import GateDecision, JudgedTicket, decide
from tasks.guide.experiences import Applied, apply_operations, next_guidance
from tasks.guide.jobs import AskedFor, ask_job
from tasks.guide.prompts import Messages, critic_messages, proposal_messages, solved_before
from tasks.guide.replies import (
    Critique,
    GuideProposal,
    UnusableReply,
    narrowed_critique,
    narrowed_proposal,
    parse_critique,
    parse_proposal,
)
from tasks.guide.ticket import GuideCandidate, Ticket

log = logging.getLogger(__name__)
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
class Criticism:
    """What the critic replied, what could be used of it, and what it adds to the lines of the candidates."""

    replies: Sequence[Mapping[str, Any]] = ()
    critiques: Mapping[Place, Critique] = field(default_factory=dict)
    extras: Extras = field(default_factory=dict)

    @property
    def rejected(self) -> int:
        return len(self.replies) - len(self.critiques)


@dataclass(frozen=True)
class Decision:
    """What became of a batch: `gate` in one word (`APPLIED`), and why.

    `reply` is that of the reflector; `applied` what its operations make of the experiences; `preview` has both rollouts
    of the held-out tickets.
    """

    gate: str
    reason: str
    reply: Mapping[str, Any] | None = None
    proposal: GuideProposal | None = None
    applied: Applied | None = None
    preview: tuple[RolledOut, ...] = ()
    figures: GateDecision | None = None

    @property
    def edit(self) -> Applied | None:
        """The edit that is applied."""
        return self.applied if self.gate in APPLIED else None


@dataclass
class MissionReflector:
    """Asks critic and reflector for one mission, and counts the replies that cannot be used."""

    setup: MissionSetup
    _replies: int = 0
    _unusable: Counter[AskedFor] = field(default_factory=Counter)  # in a row

    def criticise(self, rolled: RolledOut) -> Steps[Criticism]:
        """Of the candidates of a batch; none where the critic is off."""
        critic, template = self.setup.settings.critic, self.setup.templates.critic
        if template is None:
            return Criticism()
        caps = {"summary_max_chars": critic.summary_max_chars, "critique_max_chars": critic.critique_max_chars}
        focus, experiences = self.setup.focus, rolled.rollout.guidance.experiences
        prompts = {
            (found.ticket.group_id, one.index): critic_messages(template, focus, experiences, found, one, **caps)
            for found in rolled.tickets
            for one in chosen_candidates(found, critic)
        }
        schema = narrowed_critique([*experiences], **caps) if critic.backend == "target" else None
        replies = yield from self._ask("critique", list(prompts.values()), schema, critic, rolled)
        critiques: dict[Place, Critique] = {}
        extras: dict[Place, Mapping[str, Any]] = {}
        for place, reply in zip(prompts, replies, strict=True):
            rejected, by = None, {"critic_by": reply["by"]}
            try:
                read = critiques[place] = parse_critique(reply["text"], reply["finish"], **caps)
                extras[place] = {"critic": {n: v for n, v in asdict(read).items() if v is not None}, **by}
            except UnusableReply as error:
                rejected = str(error)
                shown = {"reason": rejected, "reply": reply["text"][:REPLY_SHOWN]}
                extras[place] = {"warnings": ["critic_rejected"], **by, "critic_rejected": shown}
            self._count("critique", rejected)
        return Criticism(replies, critiques, extras)

    def reflect(self, rolled: RolledOut, critic: Criticism, cap_left: int) -> Steps[Decision]:
        """What becomes of a batch; `cap_left` operations may still be applied in the epoch."""
        if not rolled.shown:
            noop = GuideProposal(action="noop", operations=(), evidence_group_ids=())
            return Decision("ineligible", rolled.screening.ineligible_reason or "", proposal=noop)
        if cap_left < 1:
            return Decision("budget", "the epoch's change_cap_per_epoch is spent; nothing was asked")
        reply = yield from self._propose(rolled, critic)
        try:
            proposal = parse_proposal(reply["text"], reply["finish"])
        except UnusableReply as error:
            self._count("proposal", str(error))
            return Decision("rejected", str(error), reply)
        self._count("proposal", None)
        if proposal.action == "noop":
            return Decision("noop", "the reflector proposes no edit", reply, proposal)
        return (yield from self._decide(rolled, Decision("", "", reply, proposal), proposal, cap_left))

    def _propose(self, rolled: RolledOut, critic: Criticism) -> Steps[Mapping[str, Any]]:
        """The reply of the reflector.  In what is left of the prompt, tickets that were judged right are contrast."""
        setup, reflection = self.setup, self.setup.settings.reflection
        by_id = {found.ticket.group_id: found for found in rolled.tickets}
        bundle = [by_id.pop(group_id) for group_id in rolled.shown]
        right = [found for found in by_id.values() if found.label_free.label_match]
        right.sort(key=lambda found: (found.kind != "all_right", found.ticket.group_id))
        contrast = alternating([found.ticket for found in right], reflection.batch_size - len(bundle))
        template, experiences = setup.templates.reflection, rolled.rollout.guidance.experiences
        messages = proposal_messages(
            template, setup.focus, experiences, bundle, critic.critiques, contrast, reflection.max_operations
        )
        schema = None
        if reflection.backend == "target":
            # A small model proposes edits that cannot be applied, unless its grammar has none, and needs an example.
            schema = narrowed_proposal(list(experiences), len(bundle), reflection.max_operations)
            messages = solved_before(messages, template, setup.focus)
        [reply] = yield from self._ask("proposal", [messages], schema, reflection, rolled)
        return reply

    def _decide(self, rolled: RolledOut, asked: Decision, proposal: GuideProposal, cap_left: int) -> Steps[Decision]:
        """Whether the edit is applied: it is valid, every prompt fits with it, and the held-out tickets are for it."""
        setup, settings, rollout = self.setup, self.setup.settings, rolled.rollout
        guidance, held_out = rollout.guidance, setup.tickets.holdout
        applied = apply_operations(
            guidance.experiences,
            guidance.metadata.highest,
            proposal.operations,
            max_operations=settings.reflection.max_operations,
            cap_left=cap_left,
            bundle=rolled.screening.bundle,
            tickets={ticket.group_id: ticket.per_image.values() for ticket in setup.tickets.judged},
        )
        asked = replace(asked, applied=applied)
        if not applied.accepted:
            reasons = "; ".join(dict.fromkeys(reason for _, reason in applied.rejected))
            return replace(asked, gate="invalid", reason=reasons or "it has no operation")
        if proposal.uncertainty_note and not settings.reflection.allow_uncertain:
            return replace(asked, gate="uncertain", reason=proposal.uncertainty_note)
        edited = next_guidance(guidance, applied, "", "")
        prompts = Rollout(setup, "after", edited, setup.tickets.judged).prompts
        most, too_long = yield from find_too_long(setup, prompts, setup.longest_reply, f"edit{rollout.step}")
        if too_long:
            fault = f"with it {len(too_long)} prompts exceed {most} tokens, the longest has {max(too_long.values())}"
            return replace(asked, gate="too_long", reason=fault)
        if (kind := settings.gate) != "preview":
            return replace(asked, gate=kind, reason="applied without a preview")
        before, after = Rollout(setup, "before", guidance, held_out), Rollout(setup, "after", edited, held_out)
        results = yield [*before.requests, *after.requests]
        preview = before.read(results), after.read(results)
        delta, least = settings.reflection.apply_if_delta, settings.holdout.min_probability
        rise = settings.holdout.max_false_pass_rise
        bounds = {"apply_if_delta": delta, "min_probability": least, "max_false_pass_rise": rise}
        found = decide(preview[0].votes, preview[1].votes, **bounds, seed=settings.runner.shuffle_seed)
        reason = (
            f"uplift {found.uplift:+.4f} (at least {delta:g}), "
            f"probability {found.probability:.3f} (at least {least:g}), "
            f"false passes {found.false_pass_after - found.false_pass_before:+.4f} (at most {rise:+g})"
        )
        return replace(asked, gate=found.reason, reason=reason, preview=preview, figures=found)

    def _ask(
        self,
        asked_for: AskedFor,
        prompts: Sequence[Messages],
        schema: Mapping[str, Any] | None,
        how: CriticSettings | ReflectionSettings,
        rolled: RolledOut,
    ) -> Steps[list[Mapping[str, Any]]]:
        """The replies to prompts, in their order."""
        setup, settings, label = self.setup, self.setup.settings, f"step{rolled.rollout.step}"
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
        sampling = {name: getattr(how, name) for name in ("temperature", "top_p", "max_new_tokens")} | {"seed": seed}
        names = [setup.label(asked_for, label, number) for number in range(len(prompts))]
        requests = [
            Request(*ask_job(setup.context, how.backend, asked_for, messages, schema, sampling, name))
            for messages, name in zip(prompts, names, strict=True)
        ]
        results = yield requests
        return [results[request.key] for request in requests]

    def _count(self, asked_for: AskedFor, rejected: str | None) -> None:
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


def chosen_candidates(found: JudgedTicket, critic: CriticSettings) -> list[GuideCandidate]:
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
    return [ticket for pair in zip_longest(passed, failed) for ticket in pair if ticket is not None][:most]
