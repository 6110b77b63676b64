"""Rollouts: one guidance on some tickets, what is asked of the target for it, and how the answers are read.

A step of a mission is a generator: it yields requests, and is sent their results by key.  It knows no farm, so a test
drives it with a dictionary of results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar

from orchestrator.farm.work import Request
from orchestrator.guide.ingest import MissionTickets
from orchestrator.guide.inputs import Templates
from orchestrator.guide.settings import GuideSettings
from tasks.guide.choose import Screening, TicketFindings, TieRule, find_of_tickets, screen
from tasks.guide.experiences import Guidance, guidance_hash
from tasks.guide.gate import TicketScores
from tasks.guide.jobs import GuideContext, KeyedJob, lengths_job, rollout_job
from tasks.guide.prompts import Messages, rollout_messages
from tasks.guide.ticket import (
    REASON_CHARACTERS,
    GuideCandidate,
    Ticket,
    TicketCandidates,
    preview_seed,
    read_candidate,
    rollout_seed,
    three_lines_regex,
)

JOB_LIMIT_S = 1800.0
"""The hard time limit of one job."""

T = TypeVar("T")
Results = Mapping[str, Mapping[str, Any]]
Steps = Generator[Sequence[Request], Results, T]


class StepStopped(Exception):
    """What a mission cannot go on with, in one line: the settings or the data must change."""


@dataclass(frozen=True)
class MissionSetup:
    """What a mission is given.  `parked_at` has the counts of replies at which it has parked before."""

    tickets: MissionTickets
    settings: GuideSettings
    templates: Templates
    context: GuideContext
    parked_at: frozenset[int] = frozenset()
    verifier_identity: str = ""

    @property
    def mission(self) -> str:
        return self.tickets.mission

    @property
    def focus(self) -> str:
        return self.settings.missions[self.mission]

    def label(self, *parts: object) -> str:
        """What a person calls a job of the mission: a few words, without spaces."""
        return "_".join("/".join(map(str, (self.mission, *parts))).split())


def as_request(job: KeyedJob) -> Request:
    key, spec = job
    return Request(key, dataclasses.replace(spec, limit_s=JOB_LIMIT_S))


Purpose = Literal["learning", "paired", "before", "after", "final"]
"""Of a batch; of the same batch under the guidance before an edit; of held-out tickets before and after one; of all."""

PROMPTS_A_JOB = 256
FORM_TOKENS, SHORTEST_REASON = 24, 8
"""Tokens of an answer beside its reason, and the characters that a reason may have at least."""


@dataclass(frozen=True)
class RolledOut:
    """The candidates of some tickets under one guidance, with the length of each ticket's prompt in tokens.

    `tokens` has those that were generated, by the key of the job.
    """

    rollout: Rollout
    tickets: tuple[TicketCandidates, ...]
    prompt_tokens: tuple[int, ...]
    tokens: Mapping[str, int]

    def scores(self) -> tuple[TicketScores, ...]:
        return tuple(
            TicketScores(t.ticket.group_id, t.ticket.label, tuple(c.verdict for c in t.candidates))
            for t in self.tickets
        )


@dataclass(frozen=True)
class Rollout:
    """`epoch` and `step` are those of a batch, None outside of the epochs."""

    setup: MissionSetup
    purpose: Purpose
    guidance: Guidance
    tickets: Sequence[Ticket]
    epoch: int | None = None
    step: int | None = None

    @cached_property
    def guided_by(self) -> dict[str, Any]:
        """As artifacts name the guidance."""
        return {"guidance_step": self.guidance.step, "guidance_hash": guidance_hash(self.guidance.experiences)}

    @cached_property
    def prompts(self) -> list[Messages]:
        """One for each ticket."""
        setup, experiences, form = self.setup, self.guidance.experiences, self.setup.settings.sampler.prompt
        try:
            return [rollout_messages(setup.mission, setup.focus, experiences, one, form) for one in self.tickets]
        except ValueError as error:
            raise StepStopped(f"mission {setup.mission}: {error}") from None

    @cached_property
    def _requests(self) -> list[list[Request]]:
        return [
            [self._request(ticket, prompt, index) for index in range(len(self.setup.settings.sampler.grid))]
            for ticket, prompt in zip(self.tickets, self.prompts, strict=True)
        ]

    def _request(self, ticket: Ticket, prompt: Messages, index: int) -> Request:
        setup, cell = self.setup, self.setup.settings.sampler.grid[index]
        label = setup.label(self.purpose, self.step or "all", ticket.group_id, index)
        form, seeds = None, self._seeds(ticket, index)
        if setup.settings.sampler.constrain == "three_line":  # with a reason that English does not run out of
            form = three_lines_regex(min(REASON_CHARACTERS, max(SHORTEST_REASON, cell.max_new_tokens - FORM_TOKENS)))
        return as_request(rollout_job(setup.context, prompt, cell, seeds, form, label))

    @property
    def requests(self) -> list[Request]:
        return [request for row in self._requests for request in row]

    def read(self, results: Results) -> RolledOut:
        """The candidates, once the answers to `requests` are there."""
        rows = [[results[request.key] for request in row] for row in self._requests]
        tickets = tuple(
            TicketCandidates(ticket, tuple(self._candidates(ticket, row)))
            for ticket, row in zip(self.tickets, rows, strict=True)
        )
        tokens = {r.key: sum(answer["tokens"] for answer in results[r.key]["answers"]) for r in self.requests}
        return RolledOut(self, tickets, tuple(row[0]["prompt_tokens"] for row in rows), tokens)

    def _seeds(self, ticket: Ticket, index: int) -> list[int]:
        """Of the samples of one cell."""
        settings, cell = self.setup.settings, self.setup.settings.sampler.grid[index]
        run_seed = settings.runner.shuffle_seed
        if self.epoch is None:
            first = preview_seed(cell, run_seed, ticket.group_id, index)
        else:
            first = rollout_seed(cell, run_seed, self.epoch, ticket.group_id, index)
        return [first + sample for sample in range(cell.samples(settings.sampler.samples_per_decode))]

    def _candidates(self, ticket: Ticket, row: Sequence[Mapping[str, Any]]) -> Iterator[GuideCandidate]:
        answers = [
            (cell, seed, answer)
            for cell, result in enumerate(row)
            for seed, answer in zip(self._seeds(ticket, cell), result["answers"], strict=True)
        ]
        for index, (cell, seed, answer) in enumerate(answers):
            yield read_candidate(index, cell, seed, answer["text"], answer["tokens"], answer["finish"])


@dataclass(frozen=True)
class JudgedTickets:
    """What was found of each ticket of a rollout, in its order, and which tickets are to be reflected on."""

    rollout: Rollout
    tickets: tuple[TicketFindings, ...]
    screening: Screening

    @property
    def shown(self) -> tuple[str, ...]:
        """The tickets that the reflector sees, in this order."""
        return self.screening.bundle[: self.rollout.setup.settings.reflection.batch_size]


def judge(rolled: RolledOut) -> JudgedTickets:
    """Signals, both selections and the screening of all tickets of a rollout."""
    settings = rolled.rollout.setup.settings
    signals, reflection = settings.signals, settings.reflection
    found = find_of_tickets(
        rolled.tickets,
        TieRule(settings.selection.tie_break, settings.sampler.grid, signals.weights),
        store_confidence=signals.store_confidence,
        enable_consistency=signals.enable_consistency,
    )
    screening = screen(found, reflection.eligibility_policy, reflection.all_wrong_strategy)
    return JudgedTickets(rolled.rollout, found, screening)


def find_too_long(
    setup: MissionSetup, prompts: Sequence[Messages], reply_tokens: int, label: str
) -> Steps[tuple[int, dict[int, int]]]:
    """The most tokens that a prompt to the target may have, and those of the prompts that have more, by their place.

    The model's context must hold the prompt and `reply_tokens`; where nobody knows it, no prompt is too long.
    """
    requests = [
        as_request(lengths_job(setup.context, prompts[at : at + PROMPTS_A_JOB], setup.label("lengths", label, at)))
        for at in range(0, len(prompts), PROMPTS_A_JOB)
    ]
    results = yield requests
    found = [results[request.key] for request in requests]
    if not found or found[0]["context"] is None:
        return 0, {}
    most = found[0]["context"] - reply_tokens
    tokens = [count for one in found for count in one["tokens"]]
    return most, {place: count for place, count in enumerate(tokens) if count > most}


def longest_reply(setup: MissionSetup) -> int:
    """The most tokens that a cell of the grid may write."""
    return max(cell.max_new_tokens for cell in setup.settings.sampler.grid)
