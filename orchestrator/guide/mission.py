"""One mission, from its tickets to its last guidance: epochs, batches, reflections, and a final pass over all tickets.

The steps are a generator and depend on nothing but what they are given and are sent.  A run that is resumed goes
through them anew: what was answered comes from the store or the journal, and guidance on disk never moves back.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from orchestrator.guide import artifacts
from orchestrator.guide.guidance import GuidanceRepository, utc_now
from orchestrator.guide.inputs import epoch_batches
from orchestrator.guide.reflecting import Decision, Extras, MissionReflector
from orchestrator.guide.report import REFLECTIONS, Tally, Value, judged_value, selection_diff
from orchestrator.guide.rollouts import (
    JudgedTickets,
    MissionSetup,
    RolledOut,
    Rollout,
    Steps,
    StepStopped,
    as_request,
    find_too_long,
    judge,
)
from orchestrator.report.format import format_percent
from tasks.guide.choose import accuracy
from tasks.guide.experiences import Guidance, next_guidance
from tasks.guide.jobs import verify_job
from tasks.guide.ticket import Ticket

log = logging.getLogger(__name__)


@dataclass
class Mission:
    """The steps of one mission.  `first` is the guidance with which the run began.

    `guidance` holds now; `previous` is the one before the last edit, until a batch has been judged under both.
    """

    setup: MissionSetup
    folder: artifacts.MissionFolder
    repository: GuidanceRepository
    first: Guidance
    tally: Tally
    guidance: Guidance = field(init=False)
    previous: Guidance | None = None
    is_finished: bool = False

    def __post_init__(self) -> None:
        self.guidance = self.first
        self._reflector = MissionReflector(self.setup, self.tally)

    def steps(self) -> Steps[None]:
        self.folder.extend("review.jsonl", artifacts.excluded_lines(self.setup.tickets))
        yield from self._check_all_prompts()
        settings, numbers = self.setup.settings, count(1)
        for epoch in range(1, settings.runner.epochs + 1):
            shuffled = epoch_batches(self.setup.tickets.training, settings, epoch)
            self.tally.add_dropped(epoch, shuffled.dropped)
            cap_left = settings.reflection.change_cap_per_epoch
            for tickets in shuffled.batches:
                cap_left -= yield from self._batch(epoch, next(numbers), tickets, cap_left)
                self._write_stats()
        yield from self._final_pass()
        self.is_finished = True
        self._write_stats()

    def _check_all_prompts(self) -> Steps[None]:
        """Whether every ticket's prompt fits, before anything is asked; an edit with which one does not is refused."""
        longest = self.setup.longest_reply
        rollout = Rollout(self.setup, "final", self.guidance, self.setup.tickets.judged)
        most, too_long = yield from find_too_long(self.setup, rollout.prompts, longest, "final")
        if too_long:
            shown = [f"{rollout.tickets[i].group_id} ({tokens})" for i, tokens in list(too_long.items())[:5]]
            more = f" and {len(too_long) - 5} more" if len(too_long) > 5 else ""
            raise StepStopped(
                f"mission {self.setup.mission}: no prompt may have more than {most} tokens, which is the model's "
                f"context less max_new_tokens ({longest}); more have those of {', '.join(shown)}{more}"
            )

    def _batch(self, epoch: int, step: int, tickets: Sequence[Ticket], cap_left: int) -> Steps[int]:
        """One batch; returns how many operations were applied after it."""
        rolled = yield from self._roll_out_batch(epoch, step, tickets)
        judged = judge(rolled)
        extras = yield from self._verify(rolled, f"step{step}")
        critiques, critic_extras = yield from self._reflector.criticise(judged)
        decision = yield from self._reflector.reflect(judged, critiques, cap_left)
        self._write_batch(judged, [extras, critic_extras], decision)
        self._tell(rolled, judged, decision)
        return len(decision.edit.accepted) if decision.edit else 0

    def _verify(self, rolled: RolledOut, label: str) -> Steps[Extras]:
        """What a verifier says of each candidate; nothing where the settings name none."""
        setup, name = self.setup, self.setup.settings.verifier
        if name is None:
            return {}
        requests = {}
        for found in rolled.tickets:
            named = setup.label("verify", label, found.ticket.group_id)
            job = verify_job(name, setup.verifier_identity, found, named)
            requests[found.ticket.group_id] = as_request(job)
        results = yield list(requests.values())
        return {
            (group_id, index): one
            for group_id, request in requests.items()
            for index, one in enumerate(results[request.key]["verified"])
        }

    def _roll_out_batch(self, epoch: int, step: int, tickets: Sequence[Ticket]) -> Steps[RolledOut]:
        """The candidates of a batch; after an edit also those under the guidance before it, with the same seeds."""
        now = Rollout(self.setup, "learning", self.guidance, tickets, epoch, step)
        before = [Rollout(self.setup, "paired", one, tickets, epoch, step) for one in [self.previous] if one]
        results = yield [request for rollout in (now, *before) for request in rollout.requests]
        rolled = now.read(results)
        self._keep(f"step_{step}/rollout.jsonl", rolled)
        for rollout in before:
            old = rollout.read(results)
            self._keep(f"step_{step}/paired.jsonl", old)
            self.tally.paired.append((accuracy(old.judged) or 0.0, accuracy(rolled.judged) or 0.0))
        self.previous = None
        self.tally.add_judged(rolled)
        if self.setup.settings.sampler.enforce_three_line and not any(verdict for _, verdict in rolled.judged):
            raise StepStopped(
                f"mission {self.setup.mission}: step {step}: none of the {len(tickets)} tickets has a candidate with "
                f"the three lines; {self.folder.path / f'step_{step}' / 'rollout.jsonl'} has what came "
                "(sampler.enforce_three_line: false goes on with a warning)"
            )
        return rolled

    def _write_batch(self, judged: JudgedTickets, extras: Sequence[Extras], decision: Decision) -> None:
        """The artifacts of a step, the guidance first: what is there of a step says that it is complete."""
        before, rollout, step = self.guidance, judged.rollout, judged.rollout.step
        name = artifacts.reflection_id(rollout)
        if decision.edit:
            self.guidance = next_guidance(before, decision.edit, name, utc_now())
            self.repository.commit(self.guidance)
            self.previous = before
        else:
            self.repository.load()  # ends a run whose file somebody has edited
        if decision.preview:
            self._keep(f"step_{step}/preview.jsonl", *decision.preview)
        change = name if decision.edit else None
        self.folder.write_lines(f"step_{step}/trajectories.jsonl", artifacts.trajectory_lines(judged, extras))
        self.folder.extend("selections.jsonl", artifacts.selection_lines(judged, change))
        self.folder.extend("review.jsonl", artifacts.review_lines(judged, name))
        self.folder.extend(REFLECTIONS, [artifacts.reflection_line(judged, decision, self.guidance)])
        self.tally.number["eligible"] += bool(judged.screening.bundle)
        self.tally.gates.append(decision.gate)

    def _tell(self, rolled: RolledOut, judged: JudgedTickets, decision: Decision) -> None:
        """What a batch came to, for the log: a line for it, one for its gate, one for each edit and each warning."""
        step, value = judged.rollout.step, judged_value(rolled.judged)
        where, total = f"{self.setup.mission}: batch {step}", self.stats()["batches"]["total"]
        right = f"{value['right']} of {value['tickets']} tickets are right"
        balanced = format_percent(value["balanced_accuracy"] or 0.0)
        log.info("%s of %d, epoch %s: %s (balanced accuracy %s)", where, total, judged.rollout.epoch, right, balanced)
        candidates = [candidate for found in rolled.tickets for candidate in found.candidates]
        malformed = sum(not candidate.format_ok for candidate in candidates)
        unjudged = [one.group_id for one in rolled.scores if one.judged[1] is None]
        for number, what in (
            (malformed, f"of {len(candidates)} candidates do not keep the three lines"),
            (len(unjudged), f"tickets have no valid candidate and count as wrong: {', '.join(unjudged[:5])}"),
            (len(judged.screening.manual_review), "tickets are all wrong and for manual review"),
            (len(decision.applied.rejected) if decision.applied else 0, "operations of the proposal cannot be applied"),
        ):
            if number:
                log.warning("%s: %d %s", where, number, what)
        log.info("%s: gate: %s: %s", where, decision.gate, decision.reason)
        for one in decision.edit.accepted if decision.edit else ():
            log.info("%s: edit: %s %s: %s", where, one.op, one.key, one.text or "")

    def _final_pass(self) -> Steps[None]:
        """Every ticket under the last guidance, and the held-out ones under the first, with the seeds of previews."""
        tickets = self.setup.tickets
        now = Rollout(self.setup, "final", self.guidance, tickets.judged)
        before = Rollout(self.setup, "before", self.first, tickets.holdout)
        results = yield [*now.requests, *before.requests]
        rolled, first = now.read(results), before.read(results)
        judged = judge(rolled)
        extras = yield from self._verify(rolled, "final")
        held_out = {ticket.group_id for ticket in tickets.holdout}
        self._keep("final/rollout.jsonl", rolled)
        if held_out:
            self._keep("final/preview.jsonl", first)
        self.folder.write_lines("final/trajectories.jsonl", artifacts.trajectory_lines(judged, [extras]))
        self.folder.write_lines("final/selections.jsonl", artifacts.selection_lines(judged, None, held_out))
        self.tally.final = judged_value(rolled.judged)
        self.tally.before, self.tally.after = self._held_out(first), self._held_out(rolled.of(held_out))
        self.tally.against_greedy = {
            "all_tickets": selection_diff(rolled, rolled),
            "held_out_first_guidance": selection_diff(first, rolled.of(held_out)),
        }
        self.repository.load()  # as after each batch

    def _held_out(self, rolled: RolledOut) -> Value | None:
        """The figures of the held-out tickets: by majority and, where a cell is greedy, by the first such candidate."""
        if not rolled.tickets:
            return None
        greedy = judged_value(rolled.greedy) if rolled.greedy else None
        return {**rolled.rollout.guided_by, "majority": judged_value(rolled.judged), "greedy": greedy}

    def _keep(self, name: str, *rollouts: RolledOut) -> None:
        """Write rollouts as one file, and count them."""
        self.folder.write_lines(name, [line for one in rollouts for line in artifacts.rollout_lines(one)])
        for one in rollouts:
            self.tally.add_rollout(one)

    def _write_stats(self) -> None:
        self.folder.write_stats(self.stats())

    def stats(self) -> Value:
        """The figures so far, as in `stats.json`."""
        return self.tally.stats(self.guidance, is_finished=self.is_finished)
