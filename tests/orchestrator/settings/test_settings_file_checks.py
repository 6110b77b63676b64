"""What the files that options name must hold."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.settings import cluster_layout, load_settings, read_deltas
from tasks.escape import quote
from tasks.limits import LARGEST_DELTA
from workers.steering.deltas import MAX_DELTA

ZEROS = {str(cluster): 0.0 for cluster in range(12)}


@pytest.mark.parametrize(
    ("deltas", "told"),
    [
        ({key: 0.0 for key in ZEROS if key != "11"}, "lacks '11' (the clusters are '0' to '11', KMEANS_CLUSTERS + 1)"),
        (ZEROS | {"12": 0.0}, "has the unknown '12' (the clusters are '0' to '11', KMEANS_CLUSTERS + 1)"),
        (
            {("01" if key == "1" else key): 0.0 for key in ZEROS},
            "lacks '1' and has the unknown '01' (the clusters are '0' to '11', KMEANS_CLUSTERS + 1)",
        ),
        ({}, "lacks '0', '1', '2', '3', '4', ... (the clusters are '0' to '11', KMEANS_CLUSTERS + 1)"),
        (json.dumps(ZEROS)[:-1] + ', "3": 1}', "repeats '3' (the clusters are '0' to '11', KMEANS_CLUSTERS + 1)"),
        (ZEROS | {"3": "0.5"}, "has '0.5' for cluster 3, which is not a number from -1000 to 1000"),
        (ZEROS | {"3": None}, "has 'None' for cluster 3, which is not a number from -1000 to 1000"),
        (ZEROS | {"3": True}, "has 'True' for cluster 3, which is not a number from -1000 to 1000"),
        (ZEROS | {"3": float("nan")}, "has 'nan' for cluster 3, which is not a number from -1000 to 1000"),
        (ZEROS | {"3": float("-inf")}, "has '-inf' for cluster 3, which is not a number from -1000 to 1000"),
        (
            json.dumps(ZEROS).replace('"3": 0.0', '"3": 1' + "0" * 400),
            "for cluster 3, which is not a number from -1000 to 1000",
        ),
        (ZEROS | {"3": 1000.5}, "has '1000.5' for cluster 3, which is not a number from -1000 to 1000"),
        (ZEROS | {"3": -1e9}, "has '-1000000000.0' for cluster 3, which is not a number from -1000 to 1000"),
        ([0.0] * 12, "is not a JSON object of cluster ids and numbers"),
        ("{", "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
    ],
)
def test_deltas_are_one_finite_number_for_each_cluster(sound: Any, problems: Any, deltas: object, told: str) -> None:
    sound.write_deltas(deltas)

    (line,) = problems()
    assert line.startswith("CONFIG_INITIAL_DELTAS_PATH: ") and told in line


@pytest.mark.parametrize(
    ("count", "told"), [(60_000, "has the unknown '100', '1000'"), (100_000, "more than 1,048,576")]
)
def test_far_too_many_deltas_are_refused_at_once(sound: Any, problems: Any, count: int, told: str) -> None:
    sound.write_deltas({str(cluster): 0.0 for cluster in range(count)})

    started = time.monotonic()
    assert told in problems()[0]
    assert time.monotonic() - started < 5


def test_the_range_of_deltas_is_that_of_the_servers() -> None:
    assert LARGEST_DELTA == MAX_DELTA


def test_deltas_follow_the_number_of_clusters(sound: Any, problems: Any) -> None:
    assert "lacks '12'" in problems("KMEANS_CLUSTERS=11")[0]

    sound.write_deltas({str(cluster): cluster for cluster in (4, 3, 2, 1, 0)})

    assert load_settings(sound.path, ["KMEANS_CLUSTERS=3"]).kmeans_clusters == 3
    deltas = read_deltas(sound.deltas, cluster_layout("meaning", 3, 10))
    assert list(deltas.items()) == [("0", 0.0), ("1", 1.0), ("2", 2.0), ("3", 3.0), ("4", 4.0)]


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
