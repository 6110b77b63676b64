"""W&B offline: the files that `wandb sync` would send, read with W&B's protocol buffers."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tracked_run import FILES, TrackedRun, record
from trackers import figures_of_generation

pytestmark = pytest.mark.trackers
HEADER, BLOCK, FULL, LAST = 7, 32768, 1, 4
CHUNK = struct.Struct("<IHB")  # checksum, length, kind


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TrackedRun]:
    import wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_PROJECT", "ours")
    yield TrackedRun(tmp_path / "run")
    wandb.teardown()  # its settings are those of the environment at its first use


def sessions(run: TrackedRun) -> list[list[Any]]:
    """The records of each session's file, oldest first."""
    import wandb

    wandb.teardown()  # as at the end of the process: W&B writes in a process of its own
    return [records(path) for path in sorted(run.folder.glob("wandb/offline-run-*/*.wandb"))]


def records(path: Path) -> list[Any]:
    """What `wandb sync` would read: after 7 bytes a log as LevelDB writes it, in blocks, of protocol buffers."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, found, whole = path.read_bytes(), HEADER, [], b""
    while at + CHUNK.size < len(data):
        if (left := BLOCK - at % BLOCK) < CHUNK.size:
            at += left
            continue
        _, length, kind = CHUNK.unpack_from(data, at)
        whole += data[at + CHUNK.size : at + CHUNK.size + length]
        at += CHUNK.size + length
        if kind in (FULL, LAST):
            found.append(Record.FromString(whole))
            whole = b""
    return found


def history(session: list[Any]) -> list[dict[str, Any]]:
    lines = [each.history for each in session if each.WhichOneof("record_type") == "history"]
    return [
        {".".join(item.nested_key) or item.key: json.loads(item.value_json) for item in line.item} for line in lines
    ]


def of_kind(session: list[Any], kind: str) -> list[Any]:
    return [getattr(each, kind) for each in session if each.WhichOneof("record_type") == kind]


def test_a_finished_run_has_its_settings_figures_and_files(run: TrackedRun) -> None:
    run.session("trackers:WandbTracker", 0, 2)
    assert run.lines == []
    [session] = sessions(run)
    begun = of_kind(session, "run")[0]
    assert (begun.run_id, begun.project, begun.display_name) == (run.run_id, "ours", run.run_id)
    updates = [item for each in [begun.config, *of_kind(session, "config")] for item in each.update]
    config = {item.key: json.loads(item.value_json) for item in updates}
    assert {name: config[name] for name in run.settings} == {**run.settings, "clusters_from": "None"}
    lines = {line["_step"]: line for line in history(session) if "fitness/best" in line}
    assert set(lines) == {0, 1}
    for name, value in figures_of_generation(record(1)).items():
        assert lines[1][name] == value
    [final] = [line for line in history(session) if "test/winner/mean_tokens" in line]
    assert (final["_step"], final["test/winner/mean_tokens"]) == (2, run.winner()["test"]["mean_tokens"])
    [artifact] = of_kind(session, "artifact")
    assert {entry.path for entry in artifact.manifest.contents} == FILES
    [ended] = of_kind(session, "exit")
    assert ended.exit_code == 0


def test_without_a_key_nobody_is_asked_and_one_line_says_so(run: TrackedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WANDB_MODE": "online", "NETRC": "/dev/null", "WANDB_API_KEY": ""}.items():
        monkeypatch.setenv(name, value)
    run.session("trackers:WandbTracker", 0, 2)
    [line] = run.lines
    assert "failed: RuntimeError: W&B has no API key: set WANDB_API_KEY, or WANDB_MODE=offline; the run" in line
