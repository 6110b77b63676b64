"""What a request may steer with, and what is refused before it can reach a sampler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workers.steering.request import check_params

HASH, OTHER = "0123456789abcdef", "1123456789abcdef"


@pytest.fixture
def labels_folder(tmp_path: Path) -> Path:
    np.save(tmp_path / f"{HASH}.npy", np.asarray([0, 1, 2, 2, 1], dtype=np.uint8))
    np.save(tmp_path / f"{OTHER}.npy", np.asarray([0, 1, 2, 2, 1], dtype=np.uint8))
    np.save(tmp_path / f"{OTHER}.ends.npy", np.asarray([0, 1, 2, 2], dtype=np.uint8))
    return tmp_path


def test_good_parameters_come_back_as_arrays(labels_folder: Path) -> None:
    steering = check_params({"clustering": HASH, "deltas": [1, -0.5, 1000]}, labels_folder)
    assert steering.clustering == HASH
    assert steering.labels.tolist() == [0, 1, 2, 2, 1]
    assert steering.deltas.dtype == np.float32 and steering.deltas.tolist() == [1.0, -0.5, 1000.0]


def test_a_strength_scales_all_deltas(labels_folder: Path) -> None:
    params = {"clustering": HASH, "deltas": [1, -0.5, 1000]}
    for strength, deltas in ((1, [1, -0.5, 1000]), (0.5, [0.5, -0.25, 500]), (0, [0, 0, 0])):
        steering = check_params({**params, "strength": strength}, labels_folder)
        assert steering.deltas.dtype == np.float32 and steering.deltas.tolist() == deltas


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (None, "must be an object"),
        ([1], "must be an object"),
        ({}, "clustering must be"),
        ({"clustering": "../../etc/passwd", "deltas": [0, 0, 0]}, "hexadecimal"),
        ({"clustering": HASH.upper(), "deltas": [0, 0, 0]}, "hexadecimal"),
        ({"clustering": HASH + "\n", "deltas": [0, 0, 0]}, "hexadecimal"),
        ({"clustering": HASH[:-1], "deltas": [0, 0, 0]}, "hexadecimal"),
        ({"clustering": "f" * 65, "deltas": [0, 0, 0]}, "hexadecimal"),
        ({"clustering": "f" * 32, "deltas": [0, 0, 0]}, "no labels"),
        ({"clustering": HASH, "deltas": [0, 0, 0], "weight": 1}, "unknown keys: weight"),
        ({"clustering": HASH}, "must be a list"),
        ({"clustering": HASH, "deltas": "000"}, "must be a list"),
        ({"clustering": HASH, "deltas": [0, 0]}, "2 numbers, but the clustering has 3"),
        ({"clustering": HASH, "deltas": [0, 0, 0, 0]}, "4 numbers, but the clustering has 3"),
        ({"clustering": HASH, "deltas": [0, "1", 0]}, "cluster 1 is not a number"),
        ({"clustering": HASH, "deltas": [0, 0, True]}, "cluster 2 is not a number"),
        ({"clustering": HASH, "deltas": [0, None, 0]}, "cluster 1 is not a number"),
        ({"clustering": HASH, "deltas": [float("nan"), 0, 0]}, "cluster 0 must be"),
        ({"clustering": HASH, "deltas": [0, float("inf"), 0]}, "cluster 1 must be"),
        ({"clustering": HASH, "deltas": [0, 0, -1000.01]}, "cluster 2 must be"),
        ({"clustering": HASH, "deltas": [0, 0, 10**400]}, "cluster 2 must be"),
        ({"clustering": HASH, "deltas": [0, 0, 0], "strength": 1.01}, "strength must be"),
        ({"clustering": HASH, "deltas": [0, 0, 0], "strength": -0.1}, "strength must be"),
        ({"clustering": HASH, "deltas": [0, 0, 0], "strength": float("nan")}, "strength must be"),
        ({"clustering": HASH, "deltas": [0, 0, 0], "strength": "0.5"}, "strength must be"),
        ({"clustering": HASH, "deltas": [0, 0, 0], "strength": None}, "strength must be"),
        ({"clustering": HASH, "deltas": [0, 0, 0], "end": "never"}, "end must be"),
        ({"clustering": HASH, "deltas": [0, 0, 0], "end": ["any"]}, "end must be"),
        ({"clustering": HASH, "deltas": [0, 0, 0], "end": "sentence"}, "no sentence ends for clustering 0123"),
        ({"clustering": OTHER, "deltas": [0, 0, 0], "end": "sentence"}, "5 labels and 4 uint8 ends"),
    ],
)
def test_bad_parameters_are_refused_in_a_sentence(labels_folder: Path, params: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_params(params, labels_folder)


def test_a_file_that_would_run_code_is_not_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / f"{HASH}.npy", np.asarray([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="Python objects"):
        check_params({"clustering": HASH, "deltas": [0]}, tmp_path)
