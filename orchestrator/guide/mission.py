"""One mission, from its tickets to its last guidance: epochs, batches, reflections, and a final pass over all tickets.

The steps are a generator and depend on nothing but what they are given and are sent.  A run that is resumed goes
through them anew: what was answered comes from the store or the journal, and guidance on disk never moves back.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from orchestrator.farm.work import Request
from orchestrator.guide import artifacts
from orchestrator.guide.guidance import GuidanceRepository, utc_now
from orchestrator.guide.inputs import epoch_batches
from orchestrator.guide.reflecting import Criticism, Decision, Extras, MissionReflector
from orchestrator.guide.report import REFLECTIONS
from orchestrator.guide.rollouts import MissionSetup, RolledOut, Rollout, Steps, StepStopped, find_too_long
from orchestrator.guide.tally import Tally, Value
from orchestrator.report.format import format_percent
from tasks.guide.choose import judged_figures
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

    def __post_init__(self) -> None:
        self.guidance = self.first
        self._reflector = MissionReflector(self.setup)

    def steps(self) -> Steps[None]:
        self.folder.extend("review.jsonl", artifacts.excluded_lines(self.setup.tickets))
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
                self.folder.write_stats(self.stats())
        yield from self._final_pass()
        self.folder.write_stats(self.stats())

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
        rolled, old = yield from self._roll_out_batch(epoch, step, tickets)
        verified = yield from self._verify(rolled, f"step{step}")
        critic = yield from self._reflector.criticise(rolled)
        decision = yield from self._reflector.reflect(rolled, critic, cap_left)
        self._write_batch(rolled, [verified, critic.extras], decision)
        self.tally.add_batch(rolled, old, critic, decision)
        self._tell(rolled, critic, decision)
        return len(decision.edit.accepted) if decision.edit else 0

    def _verify(self, rolled: RolledOut, label: str) -> Steps[Extras]:
        """What a verifier says of each candidate; nothing where the settings name none."""
        setup, name = self.setup, self.setup.settings.verifier
        if name is None:
            return {}
        requests = {}
        for found in rolled.tickets:
            named = setup.label("verify", label, found.ticket.group_id)
            requests[found.ticket.group_id] = Request(*verify_job(name, setup.verifier_identity, found, named))
        results = yield list(requests.values())
        return {
            (group_id, index): one
            for group_id, request in requests.items()
            for index, one in enumerate(results[request.key]["verified"])
        }

    def _roll_out_batch(
        self, epoch: int, step: int, tickets: Sequence[Ticket]
    ) -> Steps[tuple[RolledOut, RolledOut | None]]:
        """A batch; after an edit also under the guidance before it, with the same seeds."""
        now = Rollout(self.setup, "learning", self.guidance, tickets, epoch, step)
        before = self.previous and Rollout(self.setup, "paired", self.previous, tickets, epoch, step)
        results = yield [*now.requests, *(before.requests if before else [])]
        rolled, old = now.read(results), before.read(results) if before else None
        self._write_rollouts(f"step_{step}/rollout.jsonl", rolled)
        if old:
            self._write_rollouts(f"step_{step}/paired.jsonl", old)
        self.previous = None
        if self.setup.settings.sampler.enforce_three_line and not any(verdict for _, verdict in rolled.judged):
            raise StepStopped(
                f"mission {self.setup.mission}: step {step}: none of the {len(tickets)} tickets has a candidate with "
                f"the three lines; {self.folder.path / f'step_{step}' / 'rollout.jsonl'} has what came "
                "(sampler.enforce_three_line: false goes on with a warning)"
            )
        return rolled, old

    def _write_batch(self, rolled: RolledOut, extras: Sequence[Extras], decision: Decision) -> None:
        """The artifacts of a step, the guidance first: what is there of a step says that it is complete."""
        before, rollout, step = self.guidance, rolled.rollout, rolled.rollout.step
        name = artifacts.reflection_id(rollout)
        if decision.edit:
            self.guidance = next_guidance(before, decision.edit, name, utc_now())
            self.repository.commit(self.guidance)
            self.previous = before
        else:
            self.repository.load()  # ends a run whose file somebody has edited
        if decision.preview:
            self._write_rollouts(f"step_{step}/preview.jsonl", *decision.preview)
        change = name if decision.edit else None
        self.folder.write_lines(f"step_{step}/trajectories.jsonl", artifacts.trajectory_lines(rolled, extras))
        self.folder.extend("selections.jsonl", artifacts.selection_lines(rolled, change))
        self.folder.extend("review.jsonl", artifacts.review_lines(rolled, name))
        self.folder.extend(REFLECTIONS, [artifacts.reflection_line(rolled, decision, self.guidance)])

    def _tell(self, rolled: RolledOut, critic: Criticism, decision: Decision) -> None:
        """What a batch came to, for the log: a line for it, one for its gate, one for each edit and each warning."""
        step, value = rolled.rollout.step, judged_figures(rolled.judged)
        where, total = f"{self.setup.mission}: batch {step}", self.stats()["batches"]["total"]
        right = f"{value['right']} of {value['tickets']} tickets are right"
        balanced = format_percent(value["balanced_accuracy"])
        log.info("%s of %d, epoch %s: %s (balanced accuracy %s)", where, total, rolled.rollout.epoch, right, balanced)
        candidates = [candidate for found in rolled.tickets for candidate in found.candidates]
        malformed = sum(not candidate.format_ok for candidate in candidates)
        unjudged = [one.ticket.group_id for one in rolled.tickets if one.label_free.verdict is None]
        for number, what in (
            (critic.rejected, f"of {len(critic.replies)} critiques cannot be used"),
            (malformed, f"of {len(candidates)} candidates do not keep the three lines"),
            (len(unjudged), f"tickets have no valid candidate and count as wrong: {', '.join(unjudged[:5])}"),
            (len(rolled.screening.manual_review), "tickets are all wrong and for manual review"),
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
        extras = yield from self._verify(rolled, "final")
        held_out = {ticket.group_id for ticket in tickets.holdout}
        self._write_rollouts("final/rollout.jsonl", rolled)
        if held_out:
            self._write_rollouts("final/preview.jsonl", first)
        self.folder.write_lines("final/trajectories.jsonl", artifacts.trajectory_lines(rolled, [extras]))
        self.folder.write_lines("final/selections.jsonl", artifacts.selection_lines(rolled, None, held_out))
        self.repository.load()  # as after each batch
        self.tally.add_final(rolled, first)

    def _write_rollouts(self, name: str, *rollouts: RolledOut) -> None:
        self.folder.write_lines(name, [line for one in rollouts for line in artifacts.rollout_lines(one)])

    @property
    def is_finished(self) -> bool:
        return self.tally.at_end is not None

    def stats(self) -> Value:
        """The figures so far, as in `stats.json`."""
        return self.tally.stats(self.guidance)
