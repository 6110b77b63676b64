"""`collect --fresh`: the earlier collection is set aside whole, unless a process works on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator import console
from orchestrator.collect.run import COLLECT
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.kinds import SETTINGS_FILE

ROOT = Path(__file__).parents[3]
NOBODY = "redis://127.0.0.1:1/0"  # refused when the folder has been prepared
WITHOUT_WAIT = """
from orchestrator import cli
from orchestrator.farm import connection
connection.START_WAIT_S = 0.0
raise SystemExit(cli.main())
"""


@pytest.fixture
def output(tmp_path: Path) -> OutputFolder:
    """The folder of a collection that has come half the way."""
    output = OutputFolder(tmp_path / "run")
    assert collect(output)[0] == console.BROKEN
    (output.path / "phase0_verbose.jsonl").write_text("an answer\n")
    return output


def collect(output: OutputFolder, *options: str) -> tuple[int, str]:
    config = output.path.with_name("collect.yaml")
    values: dict[str, Any] = yaml.safe_load((ROOT / "configs" / "collect.yaml").read_text())
    values["output_dir"] = str(output.path)
    values["phase0"]["output_path"] = str(output.path / "phase0_data.json")
    values["reflector"]["api_base"] = values["phase0"]["correctness"]["evaluator_api_base"] = "http://127.0.0.1:9/v1"
    config.write_text(yaml.safe_dump(values))
    farm = ("--farm", "external", "--redis-url", NOBODY)
    command = [sys.executable, "-c", WITHOUT_WAIT, "collect", "--config", str(config), *farm, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_a_fresh_collection_sets_the_earlier_one_aside_and_stays_fresh_when_it_is_resumed(output: OutputFolder) -> None:
    run_id = output.run_id("collect")
    assert not COLLECT.load(output.path)[1].is_fresh
    # When it is started fresh, then the earlier one is elsewhere, whole, and the new one has nothing of it
    _, said = collect(output, "--fresh")
    aside = output.path.with_name("run.1")
    assert f"the earlier collection is now in {aside}" in said
    assert (aside / "phase0_verbose.jsonl").read_text() == "an answer\n" and (aside / SETTINGS_FILE).exists()
    assert not (output.path / "phase0_verbose.jsonl").exists()
    assert (OutputFolder(aside).run_id("collect"), output.run_id("collect") == run_id) == (run_id, False)
    assert COLLECT.load(output.path)[1].is_fresh
    # When it is resumed without the option, then it is still a fresh one, and nothing is set aside
    _, said = collect(output, "--resume")
    assert "set aside" not in said and not output.path.with_name("run.2").exists()
    assert COLLECT.load(output.path)[1].is_fresh


def test_a_collection_at_work_is_not_set_aside(output: OutputFolder) -> None:
    output.open()
    status, said = collect(output, "--fresh")
    assert status == console.IN_USE and "is in use" in said
    assert not output.path.with_name("run.1").exists()
    assert (output.path / "phase0_verbose.jsonl").exists()
    output.close()
