"""The journal of a mission: with it a run goes on from its folder and an empty store."""

from __future__ import annotations

from pathlib import Path

from orchestrator.runs.jobs import JOURNAL, Journal
from tasks.store.store import Store


def test_what_was_flushed_is_there_for_the_next_start_and_the_first_result_of_a_key_stands(tmp_path: Path) -> None:
    first = Journal(tmp_path / JOURNAL)
    first.add("rollout:a", {"answers": [{"text": "Verdict: 通过"}]})
    first.add("rollout:a", {"answers": []})
    first.flush()
    first.add_park(7)
    first.add("rollout:b", {"answers": []})  # a kill comes before it is flushed
    again = Journal(tmp_path / JOURNAL)
    assert again.results == {"rollout:a": {"answers": [{"text": "Verdict: 通过"}]}}
    assert again.parked_at == [7]


def test_a_cut_anywhere_loses_the_last_line_at_most(tmp_path: Path) -> None:
    journal = Journal(tmp_path / JOURNAL)
    for number in range(3):
        journal.add(f"key{number}", {"text": "x" * number})
    journal.flush()
    whole = (tmp_path / JOURNAL).read_bytes()
    for cut in range(len(whole) + 1):
        (tmp_path / JOURNAL).write_bytes(whole[:cut])
        kept = Journal(tmp_path / JOURNAL)
        assert list(kept.results) == [f"key{n}" for n in range(whole[:cut].count(b"\n"))]
        kept.add("new", {})
        kept.flush()
        assert "new" in Journal(tmp_path / JOURNAL).results


def test_an_empty_store_is_filled_and_what_a_store_holds_stays(store: Store, tmp_path: Path) -> None:
    store.put_shared("run", "key0", {"text": "of the store"})
    journal = Journal(tmp_path / JOURNAL)
    for number in range(2):
        journal.add(f"key{number}", {"text": "of the journal"})
    journal.seed(store, "run")
    found = store.shared("run", ["key0", "key1"])
    assert [found[key]["text"] for key in ("key0", "key1")] == ["of the store", "of the journal"]
