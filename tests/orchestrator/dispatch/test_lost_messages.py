"""A message that a killed worker took and never noted is gone: the driver sends again what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.dispatch import messages
from orchestrator.dispatch.evaluator import FarmEvaluator
from orchestrator.dispatch.producer import make_sender
from tasks.plan import Candidate, Plan, stage_refs
from tasks.store.address import queues_url
from tasks.store.client import connect
from tasks.store.store import Store

RUN = "run"
PLAN = Plan("g0_pop", 0, (Candidate(0, (0.0,)), Candidate(1, (1.0,))))
SCORE = {"fitness": 0.5, "shortness": 0.5, "correctness": 0.5, "mean_tokens": 1.0}


def test_lost_messages_are_sent_again_and_those_that_failed_are_not(valkey_url: str, store: Store) -> None:
    # Given a plan of two, one of which has failed; nobody works on this farm but the test
    broker = connect(queues_url(valkey_url))
    sent: list[int] = []

    def watch(plan: Plan, records: Mapping[str, Any]) -> None:
        waiting = messages.count(broker, RUN)
        if not sent:
            store.put_failure(RUN, plan.name, "1", {"attempt": 1, "stage": "answer", "phase": "pre", "error": "E"})
        if waiting:
            # The first time the messages are lost, the second time the work is done
            sent.append(waiting)
            messages.drop_waiting(broker, RUN)
            assert messages.count(broker, RUN) == 0
        if len(sent) == 2:
            store.forget_failures(RUN, plan.name)
            for ref in (ref for candidate in plan.candidates for ref in stage_refs(candidate)):
                store.put_stage(RUN, plan.name, ref.field, SCORE)

    evaluate = FarmEvaluator(
        make_sender(valkey_url), store, RUN, watch, 30, messages=lambda: messages.count(broker, RUN), quiet_s=1.0
    )
    # When the driver has waited, then both were sent at first, and then the one that nobody had in hand
    assert [outcome.index for outcome in evaluate(PLAN)] == [0, 1]
    assert sent == [2, 1]
