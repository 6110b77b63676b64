"""`collect --fresh`: the earlier collection is set aside whole, unless a process works on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from orchestrator import cli, console
from orchestrator.collect.run import COLLECT
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.kinds import SETTINGS_FILE

ROOT = Path(__file__).parents[3]
NOBODY = "redis://127.0.0.1:1/0"  # refused when the folder has been prepared
Collect = Callable[..., tuple[int, str]]


@pytest.fixture
def output(tmp_path: Path) -> OutputFolder:
    return OutputFolder(tmp_path / "run")


@pytest.fixture
def collect(output: OutputFolder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Collect:
    """The command, after which the folder has a collection that has come half the way: its status, and what it said."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("orchestrator.farm.connection.START_WAIT_S", 0.0)
    values = yaml.safe_load(Path("configs/collect.yaml").read_text())
    values["output_dir"] = str(output.path)
    values["phase0"]["output_path"] = str(output.path / "phase0_data.json")
    values["reflector"]["api_base"] = values["phase0"]["correctness"]["evaluator_api_base"] = "http://127.0.0.1:9/v1"
    config = output.path.with_name("collect.yaml")
    config.write_text(yaml.safe_dump(values))

    def run(*options: str) -> tuple[int, str]:
        status = cli.main(["collect", "--config", str(config), "--farm", "external", "--redis-url", NOBODY, *options])
        return status, capfd.readouterr().err

    assert run()[0] == console.BROKEN
    (output.path / "phase0_verbose.jsonl").write_text("an answer\n")
    return run


def test_a_fresh_collection_sets_the_earlier_one_aside_and_stays_fresh_when_it_is_resumed(
    output: OutputFolder, collect: Collect
) -> None:
    run_id, aside = output.run_id("collect"), output.path.with_name("run.1")
    assert not COLLECT.load(output.path)[1].is_fresh
    # While a process works on it, it is not set aside
    output.open()
    assert collect("--fresh")[0] == console.IN_USE
    assert not aside.exists() and (output.path / "phase0_verbose.jsonl").exists()
    output.close()
    # When another is started fresh, then the earlier one is elsewhere, whole, and the new one has nothing of it
    assert f"the earlier collection is now in {aside}" in collect("--fresh")[1]
    assert (aside / "phase0_verbose.jsonl").read_text() == "an answer\n" and (aside / SETTINGS_FILE).exists()
    assert not (output.path / "phase0_verbose.jsonl").exists()
    assert (OutputFolder(aside).run_id("collect"), output.run_id("collect") == run_id) == (run_id, False)
    # When it is resumed without the option, then it is still a fresh one, and nothing is set aside
    collect("--resume")
    assert COLLECT.load(output.path)[1].is_fresh and not output.path.with_name("run.2").exists()
