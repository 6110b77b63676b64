"""What a search starts from: a vector for all clusters, or a population of them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.output import OutputFolder
from orchestrator.settings import cluster_layout, layout_of, load_settings
from orchestrator.settings.population import StartVector, read_population
from orchestrator.settings.references import FORK
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
    ("member", "told"),
    [
        (ZEROS | {"3": 1000.5}, "vector 2 has '1000.5' for cluster 3, which is not a number from -1000 to 1000"),
        (ZEROS | {"12": 0.0}, "vector 2 has the unknown '12' (the clusters are '0' to '11', KMEANS_CLUSTERS + 1)"),
        ({"deltas": ZEROS | {"3": None}}, "vector 2 has 'None' for cluster 3, which is not a number"),
        ({"deltas": ZEROS, "notes": ""}, "vector 2 has the unknown 'notes' beside 'deltas' and 'scratchpad'"),
        ({"deltas": [0.0] * 12}, "vector 2 has not one object of cluster ids and numbers under 'deltas'"),
        ({"deltas": ZEROS, "scratchpad": 7}, "vector 2: scratchpad: "),
        ({"deltas": ZEROS, "scratchpad": "x" * 4001}, "vector 2: scratchpad: "),
        (0.0, "vector 2 is not a JSON object of cluster ids and numbers"),
    ],
)
def test_each_vector_of_a_population_is_checked(sound: Any, problems: Any, member: object, told: str) -> None:
    sound.write_deltas([ZEROS, member])
    (line,) = problems()
    assert line.startswith("CONFIG_INITIAL_DELTAS_PATH: ") and told in line


def test_a_population_has_scratchpads_and_an_order(sound: Any) -> None:
    ones = dict.fromkeys(ZEROS, 1.0)
    sound.write_deltas([ones, {"deltas": ZEROS, "scratchpad": "what was learnt"}, {"deltas": ones}])
    assert load_settings(sound.path).population_size == 4
    found = read_population(sound.deltas, cluster_layout("meaning", 10, 10), Path())
    assert found == (StartVector(ones), StartVector(ZEROS, "what was learnt"), StartVector(ones))


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["POPULATION_SIZE=2"], "has 3 vectors, and POPULATION_SIZE is 2"),
        (["OPTIMISER=lineage"], "has 3 vectors, and OPTIMISER 'lineage' starts from one"),
        (["OPTIMISER=cma"], "has 1 for cluster 2 in vector 3 and 0 in the first, and the cluster is pinned"),
    ],
)
def test_a_population_fits_the_search(sound: Any, problems: Any, overrides: list[str], told: str) -> None:
    sound.write_deltas([ZEROS, ZEROS, ZEROS | {"2": 1.0}])
    assert problems(*overrides) == (f"CONFIG_INITIAL_DELTAS_PATH: {told}",)


@pytest.mark.parametrize(("content", "told"), [("[]", "has no vectors"), ("7", "is not a JSON object")])
def test_what_holds_no_vector_is_refused(sound: Any, problems: Any, content: str, told: str) -> None:
    sound.write_deltas(content)
    assert told in problems()[0]


def test_what_a_fork_begins_with_is_in_its_output_folder(sound: Any, problems: Any) -> None:
    output = sound.folder / "output"
    overrides = ["INITIAL_DELTAS_PATH=fork", f"OUTPUT_DIR={output}"]
    assert f"{output}/fork.json is missing" in problems(*overrides)[0]
    origin = {"run": "run-1", "folder": "/elsewhere", "at": "generation 2", "prompt": "none"}
    members = [{"deltas": ZEROS, "scratchpad": "a"}, {"deltas": ZEROS | {"11": -1.5}, "scratchpad": ""}]
    OutputFolder(output).write_state("fork.json", {**origin, "population": members})
    assert load_settings(sound.path, overrides).initial_deltas_path == FORK
    found = read_population(FORK, cluster_layout("meaning", 10, 10), output)
    assert [(one.deltas["11"], one.scratchpad) for one in found] == [(0.0, "a"), (-1.5, "")]
    assert "vector 1 has the unknown '10', '11'" in problems(*overrides, "KMEANS_CLUSTERS=8")[0]
    (output / "fork.json").write_text((output / "fork.json").read_text().replace("-1.5", "1.5"))
    assert "its checksum is wrong" in problems(*overrides)[0]


def test_zero_is_a_start_for_any_number_of_clusters(sound: Any) -> None:
    for override in ("KMEANS_CLUSTERS=3", "KMEANS_CLUSTERS=700"):
        settings = load_settings(sound.path, [override, "INITIAL_DELTAS_PATH=zero"])
        layout = layout_of(settings)
        [vector] = read_population(settings.initial_deltas_path, layout, Path())
        assert vector.deltas == dict.fromkeys(layout.ids, 0.0)


@pytest.mark.parametrize(
    ("content", "told"),
    [(dict.fromkeys(map(str, range(60_000)), 0.0), "has the unknown '100', '1000'"), (" " * 2**24 + "{", "more than")],
)
def test_far_too_many_deltas_are_refused_at_once(sound: Any, problems: Any, content: object, told: str) -> None:
    sound.write_deltas(content)

    started = time.monotonic()
    assert told in problems()[0]
    assert time.monotonic() - started < 5


def test_the_range_of_deltas_is_that_of_the_servers() -> None:
    assert LARGEST_DELTA == MAX_DELTA


def test_deltas_follow_the_number_of_clusters(sound: Any, problems: Any) -> None:
    assert "lacks '12'" in problems("KMEANS_CLUSTERS=11")[0]

    sound.write_deltas({str(cluster): cluster for cluster in (4, 3, 2, 1, 0)})

    assert load_settings(sound.path, ["KMEANS_CLUSTERS=3"]).kmeans_clusters == 3
    [vector] = read_population(sound.deltas, cluster_layout("meaning", 3, 10), Path())
    assert list(vector.deltas.items()) == [("0", 0.0), ("1", 1.0), ("2", 2.0), ("3", 3.0), ("4", 4.0)]
