"""An array is read from a file only when it is of the kind, the shape and the size that was asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tasks.arrays import load_array


def test_an_array_comes_back(tmp_path: Path) -> None:
    for values in (np.arange(6, dtype=np.uint8), np.ones((2, 3), np.float32)):
        np.save(tmp_path / "a.npy", values)
        found = load_array(tmp_path / "a.npy", (values.dtype.name,), [None] * values.ndim, 1000)
        np.testing.assert_array_equal(found, values)
        assert not isinstance(found, np.memmap)  # the file may change or go


@pytest.mark.parametrize(
    ("types", "shape", "most", "reason"),
    [
        (("float32",), (2, 3), 1000, "not float32"),
        (("float64",), (3, 2), 1000, r"\[3, 2\] but float64 \[2, 3\]"),
        (("float64",), (None,), 1000, r"\['any'\] but"),
        (("float64",), (2, 3), 100, "176 bytes, and 100 are allowed"),
    ],
)
def test_another_array_is_refused_with_the_name_of_its_file(tmp_path, types, shape, most, reason) -> None:
    np.save(tmp_path / "a.npy", np.ones((2, 3)))
    with pytest.raises(ValueError, match=f"a.npy.*{reason}"):
        load_array(tmp_path / "a.npy", types, shape, most)


def test_numbers_are_finite(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([1.0, np.inf]))
    with pytest.raises(ValueError, match=r"a\.npy: not every number is finite"):
        load_array(tmp_path / "a.npy", ("float64",), (2,), 1000)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"a\.npy is missing"):
        load_array(tmp_path / "a.npy", ("float64",), (2,), 1000)
