"""What a request may steer with, and what is refused before it can reach a sampler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workers.steering.request import check_params

HASH, OTHER = "0123456789abcdef", "1123456789abcdef"
GOOD = {"clustering": HASH, "deltas": [1, -0.5, 1000]}


@pytest.fixture
def labels_folder(tmp_path: Path) -> Path:
    for name in (HASH, OTHER):
        np.save(tmp_path / f"{name}.npy", np.asarray([0, 1, 2, 2, 1], dtype=np.uint8))
    np.save(tmp_path / f"{OTHER}.ends.npy", np.asarray([0, 1, 2, 2], dtype=np.uint8))
    return tmp_path


@pytest.mark.parametrize("strength", [1, 0.5, 0])
def test_good_parameters_come_back_as_arrays(labels_folder: Path, strength: float) -> None:
    steering = check_params({**GOOD, "strength": strength}, labels_folder)
    assert (steering.clustering, steering.labels.tolist()) == (HASH, [0, 1, 2, 2, 1])
    assert steering.deltas.dtype == np.float32
    assert steering.deltas.tolist() == [strength, -0.5 * strength, 1000 * strength]


BAD: list[tuple[str, list[Any]]] = [
    ("clustering", [None, "../../etc/passwd", HASH.upper(), HASH + "\n", HASH[:-1], "f" * 65, "f" * 32]),
    ("weight", [1]),
    ("strength", [1.01, -0.1, float("nan"), "0.5", None]),
    ("end", ["never", ["any"], "sentence"]),
    ("deltas", [None, "000", [0, 0], [0, 0, 0, 0]]),
    *(
        ("cluster 1", [[0, value, 0]])
        for value in ("1", True, None, float("nan"), float("inf"), -1000.01, 10**400, [0.0])
    ),
]


@pytest.mark.parametrize(("what", "values"), BAD)
def test_a_bad_parameter_is_refused_by_its_name(labels_folder: Path, what: str, values: list[Any]) -> None:
    for value in values:
        name = "deltas" if what == "cluster 1" else what
        with pytest.raises(ValueError, match="sentence ends" if value == "sentence" else what):
            check_params({**GOOD, name: value}, labels_folder)


def test_no_parameters_and_ends_of_another_size_are_refused(labels_folder: Path) -> None:
    for params in (None, [1]):
        with pytest.raises(ValueError, match="must be an object"):
            check_params(params, labels_folder)
    with pytest.raises(ValueError, match="5 labels and 4 uint8 ends"):
        check_params({**GOOD, "clustering": OTHER, "end": "sentence"}, labels_folder)


def test_a_file_that_would_run_code_is_not_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / f"{HASH}.npy", np.asarray([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="Python objects"):
        check_params({"clustering": HASH, "deltas": [0]}, tmp_path)
