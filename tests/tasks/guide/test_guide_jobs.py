"""Keys of the jobs of a guided run: equal work has an equal key, and whatever changes a result changes its key."""

from __future__ import annotations

import dataclasses
import re

import pytest
from guide_records import GRID, answers, scores, ticket
from guided_job import ENDPOINT, TARGET, guided

from tasks.guide.batch import BatchInput, GateInput, TicketCandidates, VerifyInput
from tasks.guide.decoding import DecodeCell
from tasks.guide.jobs import KeyedJob, ask_job, gate_job, lengths_job, rollout_job, signals_job, verify_job
from tasks.queues import TASKS

ASKED = ("Judge tickets.", "A ticket.")
CELL = DecodeCell(0.8, 0.95, 64)
SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
SAMPLING = {"temperature": 0.2, "top_p": 0.9, "max_new_tokens": 200, "seed": 7, "label": "proposal-0"}


def rollout_key(context=guided(), messages=ASKED, cell=CELL, seeds=(1, 2), regex=None) -> str:
    return rollout_job(context, messages, cell, seeds, regex, "label")[0]


def ask_key(context=guided(endpoint=ENDPOINT), backend="target", messages=ASKED, schema=SCHEMA, **changes) -> str:
    return ask_job(context, backend, "proposal", messages, schema, **SAMPLING | changes)[0]


def all_jobs() -> list[KeyedJob]:
    context, one = guided(endpoint=ENDPOINT), answers(("pass", 0.5))
    batch = BatchInput((TicketCandidates(ticket(), one),), GRID, True, True, "confidence", None, "contradictions_only",
                       "manual_review")  # fmt: skip
    return [
        rollout_job(context, ASKED, CELL, (1,), None, "l"),
        lengths_job(context, [ASKED], "l"),
        *(ask_job(context, backend, what, ASKED, SCHEMA, **SAMPLING)
          for backend in ("target", "endpoint") for what in ("critique", "proposal")),
        signals_job(batch, "l"),
        gate_job(GateInput((scores("pass", 1, 0),), (scores("pass", 1, 0),), 0.02, 0.8, 0.1, 1), "l"),
        verify_job(context, VerifyInput("m:f", "id", ticket(), one), "l"),
    ]  # fmt: skip


def test_each_job_goes_to_a_task_that_workers_know_under_a_key_that_messages_may_have() -> None:
    jobs = all_jobs()
    assert {spec.task for _, spec in jobs} <= set(TASKS)
    assert len({key for key, _ in jobs}) == len(jobs)
    assert all(re.fullmatch("[a-z]{1,20}:[0-9a-f]{64}", key) for key, _ in jobs)


@pytest.mark.parametrize(
    "changed",
    [
        {"context": guided(server={"version": "2"})},
        {"context": guided(salt="another")},
        {"messages": ("Judge tickets.", "Another ticket.")},
        {"messages": ("Judge otherwise.", "A ticket.")},
        {"cell": dataclasses.replace(CELL, temperature=0.7)},
        {"cell": dataclasses.replace(CELL, top_p=0.9)},
        {"cell": dataclasses.replace(CELL, max_new_tokens=65)},
        {"cell": dataclasses.replace(CELL, stop=("\n\n",))},
        {"seeds": (1, 3)},
        {"regex": "(pass|fail)"},
    ],
)
def test_what_changes_candidates_changes_their_key(changed) -> None:
    assert rollout_key(**changed) != rollout_key()


def test_what_does_not_change_candidates_does_not_change_their_key() -> None:
    elsewhere = dataclasses.replace(TARGET, request_timeout_s=99, concurrency=3)
    assert rollout_key(context=guided(target=elsewhere)) == rollout_key()
    assert rollout_key(cell=dataclasses.replace(CELL, seed=5)) == rollout_key()  # the seeds are given
    # A greedy answer under unchanged guidance is the same in each epoch.
    greedy = DecodeCell(0.0, 1.0, 64)
    assert rollout_key(cell=greedy, seeds=(1,)) == rollout_key(cell=greedy, seeds=(9,))
    assert ask_key(temperature=0, seed=1) == ask_key(temperature=0, seed=2)


@pytest.mark.parametrize(
    "changed",
    [
        {"backend": "endpoint"},
        {"messages": ("s", "u")},
        {"schema": {"type": "object"}},
        *({name: value} for name, value in {"temperature": 0.3, "top_p": 0.8, "max_new_tokens": 9, "seed": 8}.items()),
    ],
)
def test_what_changes_a_proposal_changes_its_key(changed) -> None:
    assert ask_key(**changed) != ask_key()


def test_a_proposal_of_another_endpoint_or_model_is_another() -> None:
    def by(**changes) -> str:
        return ask_key(guided(**{"endpoint": ENDPOINT, "endpoint_model": "m"} | changes), "endpoint")

    elsewhere = dataclasses.replace(ENDPOINT, base_url="https://api.example.com/v1")
    keys = {by(), by(endpoint=elsewhere), by(endpoint_model="n"), by(endpoint_sends_sampling=False)}
    assert len(keys) == 4
    assert by(endpoint=dataclasses.replace(ENDPOINT, timeout_s=99)) == by()
    assert by(server={"version": "2"}) == by()  # the target has no part in it
    with pytest.raises(ValueError, match="no endpoint"):
        by(endpoint=None)
