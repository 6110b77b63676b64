"""Rollouts: one guidance on some tickets, what is asked of the target for it, and how the answers are read.

A step of a mission is a generator: it yields requests, and is sent their results by key.  It knows no farm, so a test
drives it with a dictionary of results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar

from orchestrator.farm.work import Request
from orchestrator.guide.inputs import MissionTickets, Templates
from orchestrator.guide.settings import GuideSettings
from tasks.guide.choose import Judged, JudgedTicket, Screening, SelectionRule, Votes, judge, screen
from tasks.guide.experiences import Guidance, guidance_hash
from tasks.guide.jobs import GuideContext, lengths_job, rollout_job
from tasks.guide.prompts import Messages, rollout_messages
from tasks.guide.ticket import Ticket, first_seed, read_candidate, three_lines_regex

PROMPTS_A_JOB = 256

T = TypeVar("T")
Results = Mapping[str, Mapping[str, Any]]
Steps = Generator[Sequence[Request], Results, T]
Purpose = Literal["learning", "paired", "before", "after", "final"]
"""Of a batch; of the same batch under the guidance before an edit; of held-out tickets before and after one; of all."""


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

    @property
    def longest_reply(self) -> int:
        """The most tokens that a cell of the grid may write."""
        return max(cell.max_new_tokens for cell in self.settings.sampler.grid)

    @property
    def rule(self) -> SelectionRule:
        signals, weights = self.settings.signals, self.settings.signals.weights
        return SelectionRule(
            self.settings.selection.tie_break,
            self.settings.sampler.grid,
            dataclasses.asdict(weights) if weights else {},
            signals.store_confidence,
            signals.enable_consistency,
        )

    def label(self, *parts: object) -> str:
        """What a person calls a job of the mission: a few words, without spaces."""
        return "_".join("/".join(map(str, (self.mission, *parts))).split())


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
        setup, form = self.setup, self.setup.settings.sampler.prompt
        about = (setup.mission, setup.focus, self.guidance.experiences)
        return [rollout_messages(*about, ticket, form) for ticket in self.tickets]

    @cached_property
    def by_ticket(self) -> list[list[tuple[list[int], Request]]]:
        """Of each ticket, for each cell of the grid, the seeds of its samples and the request."""
        cells = range(len(self.setup.settings.sampler.grid))
        return [
            [self._of_cell(ticket, prompt, index) for index in cells]
            for ticket, prompt in zip(self.tickets, self.prompts, strict=True)
        ]

    def _of_cell(self, ticket: Ticket, prompt: Messages, index: int) -> tuple[list[int], Request]:
        setup, sampler, run_seed = self.setup, self.setup.settings.sampler, self.setup.settings.runner.shuffle_seed
        cell = sampler.grid[index]
        first = first_seed(cell, run_seed, self.epoch, ticket.group_id, index)
        seeds = [first + sample for sample in range(1 if cell.is_greedy else sampler.samples_per_decode)]
        label = setup.label(self.purpose, self.step or "all", ticket.group_id, index)
        form = three_lines_regex(cell.max_new_tokens) if sampler.constrain == "three_line" else None
        return seeds, Request(*rollout_job(setup.context, prompt, cell, seeds, form, label))

    @property
    def requests(self) -> list[Request]:
        return [request for row in self.by_ticket for _, request in row]

    def read(self, results: Results) -> RolledOut:
        """The judged candidates, once the answers to `requests` are there."""
        tickets, rule = list[JudgedTicket](), self.setup.rule
        for ticket, row in zip(self.tickets, self.by_ticket, strict=True):
            answers = [
                (cell, seed, answer)
                for cell, (seeds, request) in enumerate(row)
                for seed, answer in zip(seeds, results[request.key]["answers"], strict=True)
            ]
            candidates = (
                read_candidate(index, cell, seed, answer["text"], answer["tokens"], answer["finish"])
                for index, (cell, seed, answer) in enumerate(answers)
            )
            tickets.append(judge(ticket, tuple(candidates), rule))
        tokens = {r.key: sum(answer["tokens"] for answer in results[r.key]["answers"]) for r in self.requests}
        prompt_tokens = tuple(results[row[0][1].key]["prompt_tokens"] for row in self.by_ticket)
        return RolledOut(self, tuple(tickets), prompt_tokens, tokens)


@dataclass(frozen=True)
class RolledOut:
    """The judged tickets of a rollout, with the length of each ticket's prompt in tokens.

    `tokens` has those that were generated, by the key of the job.
    """

    rollout: Rollout
    tickets: tuple[JudgedTicket, ...]
    prompt_tokens: tuple[int, ...]
    tokens: Mapping[str, int]

    @property
    def votes(self) -> list[Votes]:
        return [one.votes for one in self.tickets]

    @cached_property
    def judged(self) -> list[Judged]:
        """By the majority of the candidates."""
        return [votes.judged for votes in self.votes]

    @property
    def greedy(self) -> list[Judged]:
        """By the first greedy candidate of each ticket; empty where no cell of the grid is greedy."""
        cells = [number for number, cell in enumerate(self.rollout.setup.settings.sampler.grid) if cell.is_greedy]
        firsts = ((t.ticket.label, [c.verdict for c in t.candidates if c.cell in cells[:1]]) for t in self.tickets)
        return [(label, verdicts[0]) for label, verdicts in firsts if verdicts]

    @cached_property
    def screening(self) -> Screening:
        """Which tickets are to be reflected on."""
        reflection = self.rollout.setup.settings.reflection
        return screen(self.tickets, reflection.eligibility_policy, reflection.all_wrong_strategy)

    @property
    def shown(self) -> tuple[str, ...]:
        """The tickets that the reflector sees, in this order."""
        return self.screening.bundle[: self.rollout.setup.settings.reflection.batch_size]

    def of(self, group_ids: Container[str]) -> RolledOut:
        """Of these tickets alone."""
        return dataclasses.replace(self, tickets=tuple(t for t in self.tickets if t.ticket.group_id in group_ids))


def find_too_long(
    setup: MissionSetup, prompts: Sequence[Messages], reply_tokens: int, label: str
) -> Steps[tuple[int, dict[int, int]]]:
    """The most tokens that a prompt to the target may have, and those of the prompts that have more, by their place.

    The model's context must hold the prompt and `reply_tokens`; where nobody knows it, no prompt is too long.
    """
    requests = [
        Request(*lengths_job(setup.context, prompts[at : at + PROMPTS_A_JOB], setup.label("lengths", label, at)))
        for at in range(0, len(prompts), PROMPTS_A_JOB)
    ]
    results = yield requests
    found = [results[request.key] for request in requests]
    if not found or found[0]["context"] is None:
        return 0, {}
    most = found[0]["context"] - reply_tokens
    tokens = [count for one in found for count in one["tokens"]]
    return most, {place: count for place, count in enumerate(tokens) if count > most}
