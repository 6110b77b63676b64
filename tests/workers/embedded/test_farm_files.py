"""The files in which a farm records its processes and addresses, when they are damaged."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from tasks.process_identity import this_process
from workers.embedded.farm import FarmFiles, error_text, status
from workers.processes.pid_records import PidRecord, PidRecords

SUPERVISOR = PidRecord.of("supervisor", this_process())
HUGE = json.dumps([{**asdict(SUPERVISOR), "pid": 10**30}]).encode()


@pytest.mark.parametrize("name", ["supervisor.json", "pids.json", "target-gpu.json", "owner.json", "farm.json"])
@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b"[" * 100_000, b'{"pid": NaN}', HUGE])
def test_a_damaged_file_of_a_farm_that_is_up_is_named(tmp_path: Path, name: str, damage: bytes) -> None:
    PidRecords(FarmFiles(tmp_path).supervisor).add(SUPERVISOR)
    (tmp_path / name).write_bytes(damage)

    with pytest.raises(OSError, match=r"is damaged: .*remove the file") as raised:
        status(tmp_path)

    assert raised.value.filename == str(tmp_path / name)


def test_the_reason_for_an_end_may_have_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "error.txt").write_bytes(b"worker \xff has ended")
    assert error_text(FarmFiles(tmp_path)) == "worker \N{REPLACEMENT CHARACTER} has ended"
