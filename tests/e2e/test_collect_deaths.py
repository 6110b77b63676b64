"""A collection whose processes are killed: its output is that of the reference, and no stored call is made again."""

from __future__ import annotations

import pytest
from collection_folder import CollectionFolder
from killing import kill_at_moments, kill_each, kill_moments

pytestmark = pytest.mark.long
MOMENTS = kill_moments(2)
PARTS = ("gpu", "openai", "cpu", "pool child", "target", "valkey", "endpoint", "supervisor")
# With two moments each process is killed once, all in one collection.
KILLS = [(part,) * MOMENTS for part in PARTS] if MOMENTS > 2 else [PARTS]
TIMEOUT_S = 300.0


def test_killed_at_many_moments_it_resumes_and_repeats_nothing(
    reference_collection: CollectionFolder, collection: CollectionFolder
) -> None:
    kill_at_moments(collection, reference_collection.answers(), MOMENTS, "--resume")
    assert not collection.data.exists()
    done = collection.run("--resume")
    assert done.returncode == 0, done.stdout
    assert collection.comparable() == reference_collection.comparable()
    assert collection.repeated() == []
    assert collection.processes() == []


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("parts", KILLS, ids=lambda parts: "-".join(dict.fromkeys(parts)).replace(" ", "_"))
def test_no_kill_of_a_process_changes_the_output(
    reference_collection: CollectionFolder, collection: CollectionFolder, parts: tuple[str, ...]
) -> None:
    killed = kill_each(collection, reference_collection.answers(), parts, TIMEOUT_S, "--resume")
    assert killed.done.returncode == 0, killed.done.stdout
    assert collection.comparable() == reference_collection.comparable()
    assert collection.repeated(killed.losses) == []
    assert collection.processes() == []
