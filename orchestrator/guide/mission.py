"""One mission, from its tickets to its last guidance: epochs, batches, reflections, and a final pass over all tickets.

The steps are a generator and depend on nothing but what they are given and are sent.  A run that is resumed goes
through them anew: what was answered comes from the store or the journal, and guidance on disk never moves back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from orchestrator.guide.artifacts import (
    REFLECTIONS,
    Extras,
    MissionFolder,
    excluded_lines,
    review_lines,
    rollout_lines,
    selection_lines,
    trajectory_lines,
)
from orchestrator.guide.checks import Templates
from orchestrator.guide.ingest import epoch_batches
from orchestrator.guide.reflecting import MissionReflector, RejectionCounter
from orchestrator.guide.reflection import Reflection, decide_on
from orchestrator.guide.repository import GuidanceRepository
from orchestrator.guide.rollouts import (
    MissionSetup,
    Purpose,
    RolledOut,
    Rollout,
    Steps,
    StepStopped,
    as_request,
    require_fit,
)
from orchestrator.guide.tally import Tally, Value, judged_value, match_rate
from tasks.guide.candidates import Ticket
from tasks.guide.experiences import Guidance
from tasks.guide.gate import majority_pairs
from tasks.guide.jobs import VerifyInput, verify_job
from tasks.guide.operations import next_guidance
from tasks.guide.selection import BatchFindings, TieRule, find_in_batch

LONGEST_CHECKED = 8
"""Of the training tickets, those with the longest prompts must fit with an edit, beside the held-out ones."""


@dataclass
class Mission:
    """The steps of one mission.  `first` is the guidance with which the run began.

    `guidance` holds now; `previous` is the one before the last edit, until a batch has been judged under both.
    """

    setup: MissionSetup
    templates: Templates
    folder: MissionFolder
    repository: GuidanceRepository
    first: Guidance
    tally: Tally
    guidance: Guidance = field(init=False)
    previous: Guidance | None = None
    is_finished: bool = False

    def __post_init__(self) -> None:
        self.guidance = self.first
        replies = RejectionCounter(self.setup.mission, self.setup.parked_at)
        self._reflector = MissionReflector(self.setup, self.templates, self.tally, replies)
        self._longest: Sequence[Ticket] = ()

    def steps(self) -> Steps[None]:
        self.folder.extend("review.jsonl", excluded_lines(self.setup.tickets))
        yield from self._check_all_prompts()
        settings, numbers = self.setup.settings, count(1)
        for epoch in range(1, settings.runner.epochs + 1):
            shuffled = epoch_batches(self.setup.tickets.training, settings, epoch)
            if shuffled.dropped:
                dropped = sorted(ticket.group_id for ticket in shuffled.dropped)
                self.tally.dropped.append({"epoch": epoch, "group_ids": dropped})
            cap_left = settings.reflection.change_cap_per_epoch
            for tickets in shuffled.batches:
                cap_left -= yield from self._batch(epoch, next(numbers), tickets, cap_left)
                self._write_stats()
        yield from self._final_pass()
        self.is_finished = True
        self._write_stats()

    def _check_all_prompts(self) -> Steps[None]:
        """Whether every ticket's prompt fits, before anything is asked."""
        judged = self.setup.tickets.judged
        lengths = yield from require_fit(self._rollout("final", self.guidance, judged))
        held_out = {ticket.group_id for ticket in self.setup.tickets.holdout}
        by_length = sorted(zip(lengths.tokens, judged, strict=True), key=lambda pair: (-pair[0], pair[1].group_id))
        self._longest = [ticket for _, ticket in by_length if ticket.group_id not in held_out][:LONGEST_CHECKED]

    def _batch(self, epoch: int, step: int, tickets: Sequence[Ticket], cap_left: int) -> Steps[int]:
        """One batch; returns how many operations were applied after it."""
        rolled = yield from self._judge_batch(epoch, step, tickets)
        findings = self._findings(rolled)
        extras = yield from self._verify(rolled, f"step{step}")
        criticised = yield from self._reflector.criticise(rolled, findings)
        shown = findings.screening.bundle[: self.setup.settings.reflection.batch_size]
        reflection = Reflection(self.setup, epoch, step, self.guidance, findings.screening, shown)
        if not shown:
            reflection = reflection.ended("ineligible", findings.screening.ineligible_reason or "")
        elif cap_left < 1:
            reflection = reflection.ended("budget", "the epoch's change_cap_per_epoch is spent; nothing was asked")
        else:
            proposed = yield from self._reflector.propose(self.guidance, rolled, findings, criticised, shown, step)
            self.tally.add_evidence(proposed.evidence(shown), epoch)
            by_id = {ticket.group_id: ticket for ticket in tickets}
            bundle = [by_id[group_id] for group_id in shown]
            reflection = yield from decide_on(reflection, proposed, bundle, cap_left, self._longest)
        self._write_batch(rolled, findings, [extras, criticised.extras], reflection)
        return reflection.operations

    def _findings(self, rolled: RolledOut) -> BatchFindings:
        """Signals, both selections and the screening of all tickets of a rollout."""
        settings = self.setup.settings
        signals, reflection = settings.signals, settings.reflection
        return find_in_batch(
            rolled.tickets,
            TieRule(settings.selection.tie_break, settings.sampler.grid, signals.weights),
            reflection.eligibility_policy,
            reflection.all_wrong_strategy,
            store_confidence=signals.store_confidence,
            enable_consistency=signals.enable_consistency,
        )

    def _verify(self, rolled: RolledOut, label: str) -> Steps[Extras]:
        """What a verifier says of each candidate; nothing where the settings name none."""
        setup, name = self.setup, self.setup.settings.verifier
        if name is None:
            return {}
        requests = {}
        for found in rolled.tickets:
            asked = VerifyInput(name, setup.verifier_identity, found.ticket, found.candidates)
            job = verify_job(asked, setup.label("verify", label, found.ticket.group_id))
            requests[found.ticket.group_id] = as_request(job)
        results = yield list(requests.values())
        scores: dict[str, Sequence[dict[str, Any]]] = {n: results[r.key]["verified"] for n, r in requests.items()}
        return {(name, index): one for name, found in scores.items() for index, one in enumerate(found)}

    def _judge_batch(self, epoch: int, step: int, tickets: Sequence[Ticket]) -> Steps[RolledOut]:
        """The candidates of a batch; after an edit also those under the guidance before it, with the same seeds."""
        now = self._rollout("learning", self.guidance, tickets, epoch, step)
        yield from require_fit(now)
        before = [self._rollout("paired", one, tickets, epoch, step) for one in [self.previous] if one]
        results = yield [request for rollout in (now, *before) for request in rollout.requests]
        rolled = now.read(results)
        self._keep(f"step_{step}/rollout.jsonl", rolled)
        judged = majority_pairs(rolled.scores())
        for rollout in before:
            old = rollout.read(results)
            self._keep(f"step_{step}/paired.jsonl", old)
            self.tally.paired.append((match_rate(majority_pairs(old.scores())), match_rate(judged)))
        self.previous = None
        self.tally.add_judged(epoch, step, self.guidance.step, [ticket.group_id for ticket in tickets], judged)
        if self.setup.settings.sampler.enforce_three_line and not any(verdict for _, verdict in judged):
            raise StepStopped(
                f"mission {self.setup.mission}: step {step}: none of the {len(tickets)} tickets has a candidate with "
                f"the three lines; {self.folder.path / f'step_{step}' / 'rollout.jsonl'} has what came "
                "(sampler.enforce_three_line: false goes on with a warning)"
            )
        return rolled

    def _write_batch(
        self, rolled: RolledOut, findings: BatchFindings, extras: Sequence[Extras], reflection: Reflection
    ) -> None:
        """The artifacts of a step, the guidance first: what is there of a step says that it is complete."""
        before, step = self.guidance, reflection.step
        if reflection.is_applied and reflection.applied:
            made = next_guidance(before, reflection.applied, reflection.id, self.repository.time())
            self.repository.commit(made)
            self.guidance, self.previous = made, before
        else:
            self.repository.load()  # ends a run whose file somebody has edited
        if reflection.previewed:
            self._keep(f"step_{step}/preview.jsonl", reflection.previewed.before, reflection.previewed.after)
        change = reflection.id if reflection.is_applied else None
        self.folder.write_lines(f"step_{step}/trajectories.jsonl", trajectory_lines(rolled, findings, extras))
        self.folder.extend("selections.jsonl", selection_lines(rolled, findings, change))
        self.folder.extend("review.jsonl", review_lines(rolled, findings, reflection.id))
        self.folder.extend(REFLECTIONS, [reflection.line(self.guidance)])
        self.tally.eligible += findings.screening.eligible
        self.tally.gates.append(reflection.gate)

    def _final_pass(self) -> Steps[None]:
        """Every ticket under the last guidance, and the held-out ones under the first, with the seeds of previews."""
        tickets = self.setup.tickets
        now = self._rollout("final", self.guidance, tickets.judged)
        yield from require_fit(now)
        before = self._rollout("before", self.first, tickets.holdout)
        results = yield [*now.requests, *before.requests]
        rolled, first = now.read(results), before.read(results)
        findings = self._findings(rolled)
        extras = yield from self._verify(rolled, "final")
        held_out = frozenset(ticket.group_id for ticket in tickets.holdout)
        self._keep("final/rollout.jsonl", rolled)
        if held_out:
            self._keep("final/preview.jsonl", first)
        self.folder.write_lines("final/trajectories.jsonl", trajectory_lines(rolled, findings, [extras]))
        self.folder.write_lines("final/selections.jsonl", selection_lines(rolled, findings, None, held_out))
        self.tally.final = judged_value(majority_pairs(rolled.scores()))
        self.tally.before = self._held_out(first, held_out)
        self.tally.after = self._held_out(rolled, held_out)
        self.repository.load()  # as after each batch

    def _held_out(self, rolled: RolledOut, held_out: frozenset[str]) -> Value | None:
        """The figures of the held-out tickets: by majority and, where a cell is greedy, by the first such candidate."""
        if not held_out:
            return None
        scores = [ticket for ticket in rolled.scores() if ticket.group_id in held_out]
        cells = [number for number, cell in enumerate(self.setup.settings.sampler.grid) if cell.is_greedy]
        greedy = [
            (found.ticket.label, next(c.verdict for c in found.candidates if c.cell == cells[0]))
            for found in rolled.tickets
            if found.ticket.group_id in held_out and cells
        ]
        return {
            "guidance_step": rolled.rollout.guidance_step,
            "guidance_hash": rolled.rollout.guidance_hash,
            "majority": judged_value(majority_pairs(scores)),
            "greedy": judged_value(greedy) if greedy else None,
        }

    def _rollout(
        self,
        purpose: Purpose,
        guidance: Guidance,
        tickets: Sequence[Ticket],
        epoch: int | None = None,
        step: int | None = None,
    ) -> Rollout:
        return Rollout(self.setup, purpose, guidance.experiences, guidance.step, tickets, epoch, step)

    def _keep(self, name: str, *rollouts: RolledOut) -> None:
        """Write rollouts as one file, and count them."""
        self.folder.write_lines(name, [line for one in rollouts for line in rollout_lines(one)])
        for one in rollouts:
            self.tally.add_rollout(one)

    def _write_stats(self) -> None:
        self.folder.write_stats(self.tally.stats(self.guidance, is_finished=self.is_finished))
