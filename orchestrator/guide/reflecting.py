"""Critic and reflector of a mission: what they are asked, and what becomes of replies that cannot be used.

A reply is read once and never mended (`tasks/guide/critique.py`, `tasks/guide/proposal.py`).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from orchestrator.guide.checks import Templates
from orchestrator.guide.rollouts import MissionSetup, RolledOut, Steps, StepStopped, as_request, measure_lengths
from orchestrator.guide.settings import CriticSettings, ReflectionSettings
from orchestrator.guide.tally import Tally
from tasks.guide.candidates import GuideCandidate, Ticket, TicketCandidates
from tasks.guide.critique import Critique, critic_messages, critic_schema, parse_critique
from tasks.guide.experiences import Guidance
from tasks.guide.jobs import AskedFor, Backend, Messages, ask_job
from tasks.guide.operations import resolve_evidence
from tasks.guide.proposal import (
    PROPOSAL_SCHEMA,
    BundleTicket,
    GuideProposal,
    narrowed_schema,
    parse_proposal,
    proposal_messages,
    solved_before,
)
from tasks.guide.replies import Rejected
from tasks.guide.selection import BatchFindings
from tasks.openai.schema import Schema

REPLY_SHOWN = 2000  # characters of an unusable reply that artifacts keep
MOST_REJECTED = 5
"""Replies in a row that cannot be used, before the run parks."""


class TooManyRejected(Exception):
    """So many replies in a row could not be used that the run parks.  `replies` counts those of the mission so far."""

    def __init__(self, message: str, replies: int) -> None:
        super().__init__(message)
        self.replies = replies


@dataclass
class RejectionCounter:
    """The unusable replies in a row of one mission, of critic and reflector each.

    A reflector that is never understood would otherwise look like one that has nothing to say.

    `parked_at` are the counts of replies at which it has parked before: from there on it begins anew, so that a retry
    goes on.
    """

    mission: str
    parked_at: frozenset[int]
    replies: int = 0
    in_a_row: Counter[AskedFor] = field(default_factory=Counter)

    def add(self, asked_for: AskedFor, rejected: Rejected | None) -> None:
        self.replies += 1
        self.in_a_row[asked_for] = self.in_a_row[asked_for] + 1 if rejected else 0
        if rejected and self.in_a_row[asked_for] >= MOST_REJECTED:
            if self.replies not in self.parked_at:
                raise TooManyRejected(
                    f"mission {self.mission}: {MOST_REJECTED} replies in a row could not be used as a {asked_for}, the "
                    f"last one because {rejected.reason}",
                    self.replies,
                )
            self.in_a_row[asked_for] = 0


Place = tuple[str, int]
"""A candidate of a batch, by group id and index."""


@dataclass(frozen=True)
class Criticised:
    """The critiques of a batch, and what they add to the lines of its candidates."""

    critiques: Mapping[Place, Critique]
    extras: Mapping[Place, Mapping[str, Any]]


@dataclass(frozen=True)
class Proposed:
    """The reply to a batch: a proposal, or why it cannot be used.  `text` is its beginning, as it came."""

    proposal: GuideProposal | None
    rejected: Rejected | None
    text: str
    by: str

    def value(self) -> dict[str, Any] | None:
        """The proposal as artifacts write it."""
        return dataclasses.asdict(self.proposal) if self.proposal else None

    def evidence(self, shown: Sequence[str]) -> tuple[str, ...]:
        """The tickets that the proposal names for its edits, of those that it was shown."""
        if self.proposal is None or self.proposal.action == "noop":
            return ()
        operations = [name for operation in self.proposal.operations for name in operation.evidence]
        return resolve_evidence([*self.proposal.evidence_group_ids, *operations], shown)


@dataclass(frozen=True)
class MissionReflector:
    """Asks critic and reflector for one mission, and counts what they reply."""

    setup: MissionSetup
    templates: Templates
    tally: Tally
    replies: RejectionCounter

    def criticise(self, rolled: RolledOut, findings: BatchFindings) -> Steps[Criticised]:
        """Critiques of the candidates of a batch; none where the critic is off."""
        critic, template = self.setup.settings.critic, self.templates.critic
        if template is None:
            return Criticised({}, {})
        caps = (critic.summary_max_chars, critic.critique_max_chars)
        prompts = {
            (found.ticket.group_id, candidate.index): critic_messages(
                template,
                self.setup.focus,
                rolled.rollout.experiences,
                found.ticket,
                candidate,
                group.signals[candidate.index],
                summary_max_chars=critic.summary_max_chars,
                critique_max_chars=critic.critique_max_chars,
            )
            for found, group in zip(rolled.tickets, findings.groups, strict=True)
            for candidate in chosen_candidates(found, critic)
        }
        label = f"step{rolled.rollout.step}"
        keys = list(rolled.rollout.experiences) if critic.backend == "target" else None
        replies = yield from self._ask("critique", list(prompts.values()), critic_schema(*caps, keys), critic, label)
        critiques: dict[Place, Critique] = {}
        extras: dict[Place, Mapping[str, Any]] = {}
        for place, reply in zip(prompts, replies, strict=True):
            read = parse_critique(reply["text"], reply["finish"], *caps)
            self.tally.add_reply("critic", reply["by"], reply["tokens"], reply["usage"]["cost_usd"])
            self.tally.critiques += 1
            if isinstance(read, Rejected):
                self.tally.critiques_rejected += 1
                warned = {"warnings": ("critic_rejected",), "critic_by": reply["by"]}
                extras[place] = {
                    **warned,
                    "critic_rejected": {"reason": read.reason, "reply": reply["text"][:REPLY_SHOWN]},
                }
            else:
                critiques[place] = read
                extras[place] = {"critic": _critique_value(read), "critic_by": reply["by"]}
            self.replies.add("critique", read if isinstance(read, Rejected) else None)
        return Criticised(critiques, extras)

    def propose(
        self,
        guidance: Guidance,
        rolled: RolledOut,
        findings: BatchFindings,
        criticised: Criticised,
        shown: Sequence[str],
        step: int,
    ) -> Steps[Proposed]:
        """One proposal, from the tickets of a batch that are shown, in this order."""
        reflection = self.setup.settings.reflection
        kinds = {group.outcome.group_id: group.outcome.kind for group in findings.groups}
        by_id = {found.ticket.group_id: found for found in rolled.tickets}
        bundle = [
            BundleTicket(
                by_id[group_id].ticket,
                kinds[group_id],
                tuple((one, criticised.critiques.get((group_id, one.index))) for one in by_id[group_id].candidates),
            )
            for group_id in shown
        ]
        judged_right = {
            group.outcome.group_id: group.outcome.kind != "all_right"
            for group in findings.groups
            if not group.outcome.is_selected_wrong and group.outcome.group_id not in shown
        }
        right = [by_id[group_id].ticket for group_id in sorted(judged_right, key=lambda one: (judged_right[one], one))]
        contrast = alternating(right, reflection.batch_size - len(bundle))
        messages = proposal_messages(
            self.templates.reflection,
            self.setup.focus,
            guidance.experiences,
            bundle,
            contrast,
            reflection.max_operations,
        )
        schema: Schema = PROPOSAL_SCHEMA
        if reflection.backend == "target":
            # A small model proposes edits that cannot be applied, unless its grammar has none, and needs an example.
            schema = narrowed_schema(list(guidance.experiences), len(bundle), reflection.max_operations)
            messages = solved_before(messages, self.templates.reflection, self.setup.focus)
        [reply] = yield from self._ask("proposal", [messages], schema, reflection, f"step{step}")
        self.tally.add_reply("reflection", reply["by"], reply["tokens"], reply["usage"]["cost_usd"])
        read = parse_proposal(reply["text"], reply["finish"])
        rejected = read if isinstance(read, Rejected) else None
        self.replies.add("proposal", rejected)
        proposal = None if isinstance(read, Rejected) else read
        self.tally.refine += proposal is not None and proposal.action == "refine"
        return Proposed(proposal, rejected, reply["text"][:REPLY_SHOWN], reply["by"])

    def _ask(
        self,
        asked_for: AskedFor,
        prompts: Sequence[Messages],
        schema: Schema,
        how: CriticSettings | ReflectionSettings,
        label: str,
    ) -> Steps[list[Mapping[str, Any]]]:
        """The replies to prompts, in their order."""
        setup = self.setup
        if how.backend == "target":
            lengths = yield from measure_lengths(setup, prompts, how.max_new_tokens, f"{asked_for}-{label}")
            if places := lengths.too_long():
                section = "critic" if asked_for == "critique" else "reflection"
                longest = max(lengths.tokens[place] for place in places)
                raise StepStopped(
                    f"mission {setup.mission}: {label}: a prompt for a {asked_for} has {longest} tokens, more than "
                    f"{lengths.most}, which is the model's context less {section}.max_new_tokens"
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
                    seed=self._seed(how.backend),
                    label=setup.label(asked_for, label, number),
                )
            )
            for number, messages in enumerate(prompts)
        ]
        results = yield requests
        return [results[request.key] for request in requests]

    def _seed(self, backend: Backend) -> int | None:
        settings = self.setup.settings
        if backend == "target":
            return settings.runner.shuffle_seed
        return settings.endpoint.seed if settings.endpoint else None


def chosen_candidates(found: TicketCandidates, critic: CriticSettings) -> list[GuideCandidate]:
    """The valid candidates of a ticket that are criticised.

    With `prefilter.top_k` only so many: wrong ones first, then by confidence, then by index.
    """
    valid = [candidate for candidate in found.candidates if candidate.verdict is not None]
    top = critic.prefilter.top_k if critic.prefilter else None
    if top is not None:
        label = found.ticket.label
        valid.sort(key=lambda c: (c.verdict == label, -(c.confidence or 0.0), c.index))
        valid = valid[:top]
    return valid[: critic.max_candidates]


def alternating(tickets: Sequence[Ticket], most: int) -> list[Ticket]:
    """So many tickets of both labels in turn, beginning with a pass; in their order within a label."""
    passed, failed = ([ticket for ticket in tickets if ticket.label == label] for label in ("pass", "fail"))
    mixed = [ticket for pair in zip_longest(passed, failed) for ticket in pair if ticket is not None]
    return mixed[:most]


def _critique_value(critique: Critique) -> dict[str, Any]:
    """A critique as artifacts write it: without what the critic left out."""
    return {name: value for name, value in dataclasses.asdict(critique).items() if value not in (None, (), [])}
