"""Questions that cannot be used: each is named by its line, in one error, before anything is started or written."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from collecting import Collecting
from workplace import ROOT, Workplace, finish, start

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


def told(text: str) -> list[str]:
    return [line.removeprefix("orchestrator:").strip() for line in text.splitlines()]


def check(lines: list[str], option: str, path: Path) -> None:
    assert lines[0] == f"{option}: {path}: 6 malformed rows"
    assert len(lines) == 1 + len(EXPECTED)
    for line, words in zip(lines[1:], EXPECTED, strict=True):
        assert words in line


def test_collect_names_every_malformed_row_and_writes_nothing(place: Collecting, malformed: Path) -> None:
    place.configure({"data": {"financebench_path": str(malformed)}})
    done = place.run()
    assert done.returncode == 1, done.stdout
    check(told(done.stdout), "data.financebench_path", malformed)
    assert not place.farm.exists()
    assert not place.output.exists()


def test_evolve_names_every_malformed_row_and_writes_nothing(workplace: Workplace, malformed: Path) -> None:
    done = workplace.run(FINANCEBENCH_PATH=str(malformed), VALIDATION_INDICES="")
    assert done.returncode == 1, done.stdout
    check(told(done.stdout), "CONFIG_FINANCEBENCH_PATH", malformed)
    assert not workplace.farm.exists()
    assert not workplace.output.exists()


def test_keys_that_are_null_are_named_under_the_other_name_of_the_command_too(place: Collecting) -> None:
    place.configure({"seed": None, "phase0": {"k": None}})
    done = finish(start([sys.executable, "collect_data_financebench.py", *place.command()[4:]]))
    assert done.returncode == 1, done.stdout
    assert done.stdout.splitlines() == ["orchestrator: seed: is null", "orchestrator: phase0.k: is null"]
    assert not place.output.exists()


def test_an_output_that_could_not_be_written_is_refused_before_it_costs_anything(place: Collecting) -> None:
    place.configure({"phase0": {"output_path": str(place.folder)}})
    done = place.run()
    assert done.returncode == 1, done.stdout
    assert done.stdout.splitlines() == [f"orchestrator: phase0.output_path: {place.folder}: Is a directory"]
    assert not place.farm.exists()


def test_an_address_without_a_farm_that_is_elsewhere_is_refused(place: Collecting) -> None:
    done = place.run("--redis-url", "redis://127.0.0.1")
    assert done.returncode == 1, done.stdout
    assert told(done.stdout) == ["--redis-url: goes with --farm external, and only with that"]
    assert not place.farm.exists()
