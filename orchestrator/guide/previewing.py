"""The preview of an edit: the held-out tickets under the old and the new guidance with the same seeds, and the gate.

What the old guidance answered is in the store or the journal after its first preview; its jobs have the same keys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.guide.rollouts import RolledOut, Rollout, longest_reply, measure_lengths, prompt_of
from orchestrator.guide.steps import MissionSetup, Steps, as_request
from tasks.guide.batch import GateInput
from tasks.guide.gate import GateDecision
from tasks.guide.jobs import gate_job
from tasks.guide.ticket import Ticket
from tasks.validation import parse_json


@dataclass(frozen=True)
class Previewed:
    """Both rollouts, and what the gate decided."""

    before: RolledOut
    after: RolledOut
    decision: GateDecision


@dataclass(frozen=True)
class Edit:
    """The experiences before and after, and the step of the guidance before."""

    before: Mapping[str, str]
    after: Mapping[str, str]
    guidance_step: int


def preview(setup: MissionSetup, edit: Edit, epoch: int, step: int) -> Steps[Previewed]:
    """Ask the held-out tickets under both guidances, and decide."""
    held_out = setup.tickets.holdout
    before = Rollout(setup, "before", edit.before, edit.guidance_step, held_out)
    after = Rollout(setup, "after", edit.after, edit.guidance_step + 1, held_out)
    results = yield [*before.requests, *after.requests]
    old, new = before.read(results), after.read(results)
    settings = setup.settings
    asked = GateInput(
        before=old.scores(),
        after=new.scores(),
        apply_if_delta=settings.reflection.apply_if_delta,
        min_probability=settings.holdout.min_probability,
        max_false_pass_rise=settings.holdout.max_false_pass_rise,
        seed=settings.runner.shuffle_seed,
    )
    request = as_request(gate_job(asked, setup.label("gate", f"epoch{epoch}", f"step{step}")))
    results = yield [request]
    return Previewed(old, new, parse_json(GateDecision, json.dumps(results[request.key])))


def exceeding(setup: MissionSetup, experiences: Mapping[str, str], tickets: Sequence[Ticket], step: int) -> Steps[str]:
    """Why prompts with these experiences would be too long, "" where they are not."""
    prompts = [prompt_of(setup, ticket, experiences) for ticket in tickets]
    lengths = yield from measure_lengths(setup, prompts, longest_reply(setup), f"edit{step}")
    if not (places := lengths.too_long()):
        return ""
    longest = max(lengths.tokens[place] for place in places)
    return f"with it {len(places)} prompts or more exceed {lengths.most} tokens, the longest has {longest}"
