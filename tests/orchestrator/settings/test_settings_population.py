"""What a search starts from: a vector for all clusters, or a population of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator.runs.folder import OutputFolder
from orchestrator.settings.inputs import FORK, StartVector, cluster_layout, read_population
from orchestrator.settings.kconfig import load_settings

ZEROS = {str(cluster): 0.0 for cluster in range(12)}
WRONG = [
    {key: 0.0 for key in ZEROS if key != "11"},
    ZEROS | {"12": 0.0},
    {("01" if key == "1" else key): 0.0 for key in ZEROS},
    {},
    json.dumps(ZEROS)[:-1] + ', "3": 1}',  # twice
    ZEROS | {"3": "0.5"},
    ZEROS | {"3": None},
    ZEROS | {"3": True},
    ZEROS | {"3": float("nan")},
    json.dumps(ZEROS).replace('"3": 0.0', '"3": 1' + "0" * 400),
    ZEROS | {"3": 1000.5},
    [0.0] * 12,
    "{",
    "[" * 100_000,
    "[]",
    "7",
    " " * 2**24 + "{",
    # In a population
    [ZEROS, ZEROS | {"3": 1000.5}],
    [ZEROS, {"deltas": ZEROS, "notes": ""}],
    [ZEROS, {"deltas": [0.0] * 12}],
    [ZEROS, {"deltas": ZEROS, "scratchpad": 7}],
    [ZEROS, {"deltas": ZEROS, "scratchpad": "x" * 4001}],
    [ZEROS] * 5,  # of which POPULATION_SIZE leaves room for 4
]


@pytest.mark.parametrize("deltas", WRONG, ids=range(len(WRONG)))
def test_deltas_are_one_finite_number_for_each_cluster(sound: Any, refused: Any, deltas: object) -> None:
    sound.write_deltas(deltas)
    assert refused() == ("INITIAL_DELTAS_PATH",)


def test_a_population_has_scratchpads_and_an_order(sound: Any) -> None:
    ones = dict.fromkeys(ZEROS, 1.0)
    sound.write_deltas([ones, {"deltas": ZEROS, "scratchpad": "what was learnt"}, {"deltas": ones}])
    assert load_settings(sound.path).population_size == 4
    found = read_population(sound.deltas, cluster_layout("meaning", 10))
    assert found == (StartVector(ones), StartVector(ZEROS, "what was learnt"), StartVector(ones))


def test_lineage_starts_from_one_vector_and_a_pinned_cluster_is_alike_in_all(sound: Any, refused: Any) -> None:
    sound.write_deltas([ZEROS, ZEROS | {"2": 1.0}])
    assert refused("OPTIMISER=lineage") == refused("OPTIMISER=cma") == ("INITIAL_DELTAS_PATH",)


def test_the_word_fork_is_for_a_folder_that_has_what_a_fork_begins_with(sound: Any, refused: Any) -> None:
    output = sound.folder / "output"
    overrides = ["INITIAL_DELTAS_PATH=fork", f"OUTPUT_DIR={output}"]
    assert refused(*overrides) == ("INITIAL_DELTAS_PATH",)
    OutputFolder(output).write_json("fork.json", {})
    assert load_settings(sound.path, overrides).initial_deltas_path == FORK
