"""A run that is refused when it is started again keeps its settings, whatever its kind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator import exit_status
from orchestrator.farm.connection import FarmLost, FarmUnavailable
from orchestrator.output import OutputFolder
from orchestrator.runs.changes import CHANGES_FILE
from orchestrator.runs.refusal import restored_if_refused
from orchestrator.settings import SettingsError, load_settings, write_config
from tasks.secret import SecretError

ROOT = Path(__file__).parents[3]
NO_FARM = "redis://127.0.0.1:1/0"  # connected to again and again, for a quarter of a minute
NO_ADDRESS = "redis://127.0.0.1:port/0"  # refused at once
ENDPOINT = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize("error", [SettingsError(["no"]), SecretError("no key"), FarmUnavailable("no farm")])
def test_settings_with_which_a_run_is_refused_do_not_replace_those_that_it_has(
    tmp_path: Path, error: Exception
) -> None:
    settings, progress, added = (tmp_path / name for name in ("settings", "progress", "added"))

    def start(error: Exception) -> None:
        with pytest.raises(type(error)), restored_if_refused(settings, progress, added):
            settings.write_text("new")
            added.write_text("new")
            progress.unlink(missing_ok=True)
            raise error

    # a new run has no earlier ones
    start(error)
    assert (settings.read_text(), added.read_text()) == ("new", "new")
    # one that has them keeps them
    settings.write_text("old")
    progress.write_text("half")
    added.unlink()
    start(error)
    assert (settings.read_text(), progress.read_text(), added.exists()) == ("old", "half", False)
    # what ends it later leaves the new ones
    start(FarmLost("the farm has ended"))
    assert (settings.read_text(), progress.exists(), added.exists()) == ("new", False, True)


def test_a_collection_whose_farm_has_no_address_stays_as_it_is(tmp_path: Path) -> None:
    folder, config = tmp_path / "run", tmp_path / "collect.yaml"

    def collect(seed: int) -> str:
        values: dict[str, Any] = yaml.safe_load((ROOT / "configs" / "collect.yaml").read_text())
        values |= {"output_dir": str(folder), "seed": seed}
        values["phase0"]["output_path"] = str(folder / "phase0_data.json")
        values["reflector"]["api_base"] = values["phase0"]["correctness"]["evaluator_api_base"] = ENDPOINT
        config.write_text(yaml.safe_dump(values))
        address = ("--farm", "external", "--redis-url", NO_ADDRESS)
        return refused("collect", "--config", str(config), *address, status=exit_status.WRONG)

    # Given a collection that has come half the way
    collect(seed=1)
    (folder / "progress.json").write_text("half")
    (folder / "phase0_verbose.jsonl").write_text("an answer\n")
    before = files(folder, "settings.yaml", "progress.json", "phase0_verbose.jsonl")
    # When it is started with another seed, or resumed with another address, and the address is none
    assert "'redis://127.0.0.1:port/0'" in collect(seed=2)
    assert files(folder, *before) == before
    (folder / "phase0_verbose.jsonl").unlink()
    del before["phase0_verbose.jsonl"]
    refused("retry", str(folder), "--set", f"farm.redis_url={NO_ADDRESS}1", status=exit_status.WRONG)
    # Then its settings and what it has done are what they were
    assert files(folder, *before) == before


@pytest.mark.long
def test_an_evolution_whose_farm_cannot_be_reached_keeps_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    output, values = (
        OutputFolder(tmp_path),
        ("FARM=external", f"OPENAI_BASE_URL={ENDPOINT}"),
    )
    write_config(load_settings(ROOT / "configs" / "embedded.config", values), output.config)
    output.run_id("evolve")
    before = files(tmp_path, "config")
    said = refused("retry", str(tmp_path), "--set", f"FARM={NO_FARM}", "--set", "REFLECTOR_MODEL=other")
    assert "no Redis or Valkey" in said
    assert files(tmp_path, "config") == before and not (tmp_path / CHANGES_FILE).exists()


def files(folder: Path, *names: str) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in names}


def refused(*arguments: str, status: int = exit_status.BROKEN) -> str:
    """What `orchestrator` prints where no farm can be reached."""
    command = [sys.executable, "-m", "orchestrator", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stderr
