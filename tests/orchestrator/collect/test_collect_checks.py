"""What is refused before a collection is started, also when it is resumed with other settings."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from orchestrator.collect.run import COLLECT, start_collection
from orchestrator.collect.settings import CollectOptions, check_surroundings, read_collect_settings
from orchestrator.runs.folder import OutputError, OutputFolder
from orchestrator.runs.kinds import SETTINGS_FILE
from orchestrator.settings import SettingsError

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    options = CollectOptions(farm_dir=str(tmp_path / "farm"), requests_per_minute=10, tokens_per_minute=100_000)
    COLLECT.save(OutputFolder(tmp_path), read_collect_settings(ROOT / "configs" / "collect.yaml"), options)
    return tmp_path


def refused(folder: Path, *changes: str) -> list[str]:
    """When the collection is resumed with these changes; nothing of it is changed by that."""
    before = (folder / SETTINGS_FILE).read_bytes()
    with pytest.raises(SettingsError) as error:
        COLLECT.resume(folder, changes, (), plain=True)
    assert (folder / SETTINGS_FILE).read_bytes() == before and not (folder / "farm").exists()
    return list(error.value.problems)


def test_a_limit_that_leaves_no_room_for_a_prompt_is_refused(folder: Path) -> None:
    """The longest replies have 256 and 512 tokens."""
    [line] = refused(folder, "farm.tokens_per_minute=512")
    assert line.startswith("--tokens-per-minute: 512 ") and "evaluator_max_new_tokens" in line
    check_surroundings(*COLLECT.load(folder, ["farm.tokens_per_minute=513"]))


def test_an_endpoint_without_a_key_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = "http://127.0.0.1:9/v1"
    both = [f"reflector.api_base={address}", f"phase0.correctness.evaluator_api_base={address}"]
    names = ["reflector.api_key_env=NO_SUCH_KEY", "phase0.correctness.evaluator_api_key_env=THAT_KEY"]
    monkeypatch.setenv("THAT_KEY", "k")
    [line] = refused(folder, *both, *names)
    assert line.startswith("reflector.api_key_env: ") and "NO_SUCH_KEY" in line


def test_an_output_that_is_the_file_of_questions_is_refused(folder: Path) -> None:
    settings, options = COLLECT.load(folder)
    questions = folder / "questions.jsonl"
    questions.write_bytes(Path(settings.data.financebench_path).read_bytes())
    (folder / "link.json").symlink_to(questions)
    data = dataclasses.replace(settings.data, financebench_path=str(questions))
    phase0 = dataclasses.replace(settings.phase0, output_path=str(folder / "link.json"))
    with pytest.raises(OutputError, match=r"phase0\.output_path: .* is the same file as data\.financebench_path"):
        start_collection(dataclasses.replace(settings, data=data, phase0=phase0), options, resume=False)
