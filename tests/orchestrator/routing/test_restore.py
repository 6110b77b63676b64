"""What a run that goes on puts back into a store that has lost everything."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from route_values import small_route

from orchestrator.guide.journal import Journal
from orchestrator.routing.build import arms, read_texts, route_inputs
from orchestrator.routing.restore import restore_results, restore_training
from tasks.route.jobs import RouteJob, bases_job, train_checkpoint, train_job
from tasks.store.store import Store

RUN = "run-00000001"
CHECKPOINT = b"knobs"


@pytest.fixture
def jobs(tmp_path: Path) -> tuple[RouteJob, RouteJob]:
    """The bases, and the training of the first arm."""
    settings = small_route(tmp_path)
    inputs = route_inputs(settings, read_texts(settings))
    return bases_job(inputs, 1.0), train_job(inputs, arms(settings)[0], "weights", None, 1.0)


@pytest.fixture
def journal(tmp_path: Path, jobs: tuple[RouteJob, RouteJob]) -> Journal:
    """That of a run that has made both."""
    (bases, _), (training, _) = jobs
    journal = Journal(tmp_path / "journal.jsonl")
    journal.add(bases, {"weights": "weights"})
    journal.add(training, {"rows": [], "sha256": hashlib.sha256(CHECKPOINT).hexdigest()})
    return journal


def restored(store: Store, journal: Journal, jobs: tuple[RouteJob, RouteJob], checkpoint: Path) -> tuple[bool, bool]:
    """Whether the store has the bases and the training afterwards."""
    restore_results(store, RUN, journal)
    restore_training(store, RUN, journal, jobs[1], checkpoint)
    keys = [job[0] for job in jobs]
    found = store.shared(RUN, keys)
    return keys[0] in found, keys[1] in found


def test_a_training_comes_back_with_its_checkpoint(
    store: Store, journal: Journal, jobs: tuple[RouteJob, RouteJob], tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(CHECKPOINT)
    assert restored(store, journal, jobs, path) == (True, True)
    assert store.checkpoint(RUN, train_checkpoint(jobs[1])) == CHECKPOINT


def test_a_training_whose_checkpoint_is_lost_is_done_again(
    store: Store, journal: Journal, jobs: tuple[RouteJob, RouteJob], tmp_path: Path
) -> None:
    assert restored(store, journal, jobs, tmp_path / "checkpoint") == (True, False)
    assert store.checkpoint(RUN, train_checkpoint(jobs[1])) is None
