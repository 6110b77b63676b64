"""`collect --fresh`: the earlier collection is set aside whole, unless a process works on it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from orchestrator import cli, console
from orchestrator.collect.run import COLLECT
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.kinds import SETTINGS_FILE

NOBODY = "redis://127.0.0.1:1/0"  # refused when the folder has been prepared


def test_a_fresh_collection_sets_the_earlier_one_aside_and_stays_fresh_when_it_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    monkeypatch.setattr("orchestrator.farm.connection.START_WAIT_S", 0.0)
    output, aside, config = OutputFolder(tmp_path / "run"), tmp_path / "run.1", tmp_path / "collect.yaml"
    values = yaml.safe_load(Path("configs/collect.yaml").read_text())
    values["output_dir"] = str(output.path)
    values["phase0"]["output_path"] = str(output.path / "phase0_data.json")
    values["reflector"]["api_base"] = values["phase0"]["correctness"]["evaluator_api_base"] = "http://127.0.0.1:9/v1"
    config.write_text(yaml.safe_dump(values))

    def collect(*options: str) -> int:
        return cli.main(["collect", "--config", str(config), "--farm", "external", "--redis-url", NOBODY, *options])

    # Given a collection that has come half the way
    assert collect() == console.BROKEN
    (output.path / "phase0_verbose.jsonl").write_text("an answer\n")
    run_id = output.run_id("collect")
    assert not COLLECT.load(output.path)[1].is_fresh
    # While a process works on it, it is not set aside
    output.open()
    assert collect("--fresh") == console.IN_USE
    assert not aside.exists() and (output.path / "phase0_verbose.jsonl").exists()
    output.close()
    # When another is started fresh, then the earlier one is elsewhere, whole, and the new one has nothing of it
    assert collect("--fresh") == console.BROKEN
    assert (aside / "phase0_verbose.jsonl").read_text() == "an answer\n" and (aside / SETTINGS_FILE).exists()
    assert not (output.path / "phase0_verbose.jsonl").exists()
    assert (OutputFolder(aside).run_id("collect"), output.run_id("collect") == run_id) == (run_id, False)
    # When it is resumed without the option, then it is still a fresh one, and nothing is set aside
    collect("--resume")
    assert COLLECT.load(output.path)[1].is_fresh and not (tmp_path / "run.2").exists()
