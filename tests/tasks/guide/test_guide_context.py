"""The context of a guided run goes through the store unchanged."""

from __future__ import annotations

import pytest
from celery.exceptions import Ignore
from guided_job import ENDPOINT, guided, job_in

from tasks.guide.context import GuideContext, guide_context
from tasks.guide.jobs import lengths_job
from tasks.job import Job
from tasks.store.store import Store


def test_a_job_reads_what_the_driver_wrote(store: Store) -> None:
    written = guided(endpoint=ENDPOINT, endpoint_model="m", server={"version": "1", "context_length": 8192})
    assert guide_context(job_in(store, written, lengths_job(written, [], "l"))) == written
    assert GuideContext.from_json(guided().to_json()) == guided()


def test_a_job_of_a_run_that_is_no_longer_there_is_dropped(store: Store) -> None:
    with pytest.raises(Ignore, match="no guided run 'another'"):
        guide_context(Job(store, "another", "lengths:0", {}))
