"""Malformed questions: one error names each by its line, before anything is started or written."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from collection_folder import CollectionFolder
from run_folder import ROOT, RunFolder, finish, start

EXPECTED = (
    "line 2: evidence is missing",
    "line 3: answer is null",
    "line 4: invalid JSON at column 2",
    "line 5: financebench_id 'sample_id_00001' is already on line 1",
    "line 6: evidence[0].evidence_text_full_page is longer than 1,000,000 bytes",
    "line 7: invalid UTF-8 at byte ",
)


@pytest.fixture
def malformed(tmp_path: Path) -> Path:
    """A good row, one malformed row of each kind, and a good row."""
    lines = (ROOT / "configs" / "data" / "sample.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines[:5]]
    del rows[1]["evidence"]
    rows[2]["answer"] = None
    rows[3]["evidence"][0]["evidence_text_full_page"] = "x" * 10_000_000
    one, no_evidence, no_answer, huge, latin = (json.dumps(row).encode() for row in rows)
    latin = latin.replace(b'"question": "', b'"question": "caf\xe9 ')
    path = tmp_path / "malformed.jsonl"
    path.write_bytes(b"\n".join([one, no_evidence, no_answer, b"{", one, huge, latin, lines[5].encode()]))
    return path


def error_lines(text: str) -> list[str]:
    return [line.removeprefix("orchestrator:").strip() for line in text.splitlines()]


def check(lines: list[str], option: str, path: Path) -> None:
    assert lines[0] == f"{option}: {path}: 6 faults"
    assert len(lines) == 1 + len(EXPECTED)
    for line, words in zip(lines[1:], EXPECTED, strict=True):
        assert words in line


def test_collect_names_every_malformed_row_and_writes_nothing(collection: CollectionFolder, malformed: Path) -> None:
    collection.configure({"data": {"financebench_path": str(malformed)}})
    done = collection.run()
    assert done.returncode == 1, done.stdout
    check(error_lines(done.stdout), "data.financebench_path", malformed)
    assert not collection.farm.exists()
    assert not collection.output.exists()


def test_evolve_names_every_malformed_row_and_writes_nothing(run_folder: RunFolder, malformed: Path) -> None:
    done = run_folder.run(DATA_PATH=str(malformed), VALIDATION="")
    assert done.returncode == 1, done.stdout
    check(error_lines(done.stdout), "CONFIG_DATA_PATH", malformed)
    assert not run_folder.farm.exists()
    assert not run_folder.output.exists()


def test_the_script_with_the_other_name_also_names_keys_that_are_null(collection: CollectionFolder) -> None:
    collection.configure({"seed": None, "phase0": {"k": None}})
    done = finish(start([sys.executable, "collect_data_financebench.py", *collection.command()[4:]]))
    assert done.returncode == 1, done.stdout
    assert done.stdout.splitlines() == ["orchestrator: seed: is null", "orchestrator: phase0.k: is null"]
    assert not collection.output.exists()


def test_an_output_that_cannot_be_written_is_an_error_before_any_call(collection: CollectionFolder) -> None:
    collection.configure({"phase0": {"output_path": str(collection.folder)}})
    done = collection.run()
    assert done.returncode == 1, done.stdout
    assert done.stdout.splitlines() == [f"orchestrator: phase0.output_path: {collection.folder}: Is a directory"]
    assert not collection.farm.exists()


def test_an_address_needs_an_external_farm(collection: CollectionFolder) -> None:
    done = collection.run("--redis-url", "redis://127.0.0.1")
    assert done.returncode == 1, done.stdout
    assert error_lines(done.stdout) == ["--redis-url: goes with --farm external, and only with that"]
    assert not collection.farm.exists()
