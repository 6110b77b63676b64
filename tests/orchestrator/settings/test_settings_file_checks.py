"""What the files that options name must hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.settings import load_settings
from tasks.escape import quote


@pytest.mark.parametrize("name", ["DATA_PATH", "INITIAL_DELTAS_PATH", "CLUSTER_DESCRIPTIONS_PATH"])
def test_a_file_must_be_there(sound: Any, problems: Any, name: str) -> None:
    missing = sound.folder / "missing"

    assert problems(f"{name}={missing}") == (f"CONFIG_{name}: {str(missing)!r} does not exist",)
    told = "a folder without dataset_dict.json" if name == "DATA_PATH" else "is not a file"
    (line,) = problems(f"{name}={sound.folder}")
    assert line.startswith(f"CONFIG_{name}: ") and str(sound.folder) in line and told in line


def test_relative_paths_start_at_the_working_directory(sound: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (sound.folder / "elsewhere").mkdir()
    monkeypatch.chdir(sound.folder / "elsewhere")

    settings = load_settings(sound.path, ["DATA_PATH=../questions.jsonl"])

    assert settings.data_path == Path("../questions.jsonl")


@pytest.mark.parametrize("name", ["TRAINING_INDICES", "VALIDATION_INDICES"])
@pytest.mark.parametrize(
    ("indices", "told"),
    [
        ("1;2", "is neither an index nor a range"),
        ("1,,2", "is neither an index nor a range"),
        ("-3", "is neither an index nor a range"),
        ("All", "is neither an index nor a range"),
        ("9-2", "is before its start"),
        ("1-5,3", "names 3 twice"),
        ("38-40", "names 40, but the data set has 40 lines"),
    ],
)
def test_indices_are_indices_of_the_data_set(problems: Any, name: str, indices: str, told: str) -> None:
    other = "VALIDATION_INDICES" if name == "TRAINING_INDICES" else "TRAINING_INDICES"

    (line,) = problems(f"{name}={indices}", f"{other}=37")
    assert line.startswith(f"CONFIG_{name}: ") and told in line


def test_the_pool_is_not_empty(problems: Any) -> None:
    assert problems("TRAINING_INDICES=") == ("CONFIG_TRAINING_INDICES: is empty",)


@pytest.mark.parametrize(("pool", "validation"), [("0-7", "7,8"), ("all", "39"), ("5", "all"), ("0-3,20-30", "4,22")])
def test_the_validation_set_has_nothing_of_the_pool(problems: Any, pool: str, validation: str) -> None:
    (line,) = problems(f"TRAINING_INDICES={pool}", f"VALIDATION_INDICES={validation}")

    assert line.startswith("CONFIG_VALIDATION_INDICES: has question ")


def test_a_data_set_has_questions(sound: Any, problems: Any) -> None:
    sound.questions.write_text("\n\n")

    assert f"CONFIG_DATA_PATH: {quote(str(sound.questions))} has no questions" in problems()


def test_the_names_of_financebench_s_options_are_accepted_for_the_general_ones(sound: Any, problems: Any) -> None:
    sound.path.write_text(sound.path.read_text().replace("CONFIG_DATA_PATH=", "CONFIG_FINANCEBENCH_PATH="))
    settings = load_settings(sound.path, ["FINANCEBENCH_POOL_INDICES=3-5", "VALIDATION_INDICES="])
    assert (settings.data_path, settings.training_indices) == (sound.questions, "3-5")
    assert problems("CONFIG_FINANCEBENCH_POOL_INDICES=99", "VALIDATION_INDICES=")[0].startswith(
        "CONFIG_TRAINING_INDICES: names 99"
    )
