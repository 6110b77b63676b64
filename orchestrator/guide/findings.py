"""What the cpu queue finds of rollouts: signals, selections and screening, and the scores of a verifier."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from orchestrator.guide.lines import Extras
from orchestrator.guide.rollouts import RolledOut
from orchestrator.guide.steps import MissionSetup, Steps, as_request
from tasks.guide.batch import BatchFindings, BatchInput, VerifyInput
from tasks.guide.jobs import signals_job, verify_job
from tasks.guide.selection import SignalWeights
from tasks.validation import parse_json


def find_in_rollout(rolled: RolledOut, label: str) -> Steps[BatchFindings]:
    """Signals, both selections and the screening of all tickets of a rollout."""
    setup = rolled.rollout.setup
    request = as_request(signals_job(_batch_input(setup, rolled), setup.label("signals", label)))
    results = yield [request]
    return parse_json(BatchFindings, json.dumps(results[request.key]))


def verify_rollout(rolled: RolledOut, label: str) -> Steps[Extras]:
    """What a verifier says of each candidate; nothing where the settings name none."""
    setup = rolled.rollout.setup
    name = setup.settings.verifier
    if name is None:
        return {}
    requests = {
        found.ticket.group_id: as_request(
            verify_job(
                setup.context,
                VerifyInput(name, setup.verifier_identity, found.ticket, found.candidates),
                setup.label("verify", label, found.ticket.group_id),
            )
        )
        for found in rolled.tickets
    }
    results = yield list(requests.values())
    extras: dict[tuple[str, int], Mapping[str, Any]] = {}
    for group_id, request in requests.items():
        for index, scored in enumerate(results[request.key]["verified"]):
            extras[group_id, index] = scored
    return extras


def _batch_input(setup: MissionSetup, rolled: RolledOut) -> BatchInput:
    settings = setup.settings
    given = settings.signals.weights
    weights = SignalWeights(given.label_match, given.self_consistency, given.confidence) if given else None
    return BatchInput(
        groups=rolled.tickets,
        grid=settings.cells,
        store_confidence=settings.signals.store_confidence,
        enable_consistency=settings.signals.enable_consistency,
        tie_break=settings.selection.tie_break,
        weights=weights,
        policy=settings.reflection.eligibility_policy,
        all_wrong_strategy=settings.reflection.all_wrong_strategy,
    )
