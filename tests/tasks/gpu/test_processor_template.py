"""The template of generated files: deltas and labels that do not belong together are refused."""

from __future__ import annotations

import numpy as np
import pytest
from test_processor import HASH

from tasks.gpu.processor_template import check_clusters


@pytest.mark.parametrize(
    ("deltas", "labels", "clustering", "sentence"),
    [
        ({"0": 1.0, "2": 1.0}, [0, 1], HASH, "keys 0 to 1"),
        ({"0": 1.0}, [0, 1], HASH, "below 1"),
        ({"0": float("nan"), "1": 1.0}, [0, 1], HASH, "clusters 0 are not numbers from -1000 to 1000"),
        ({"0": float("inf"), "1": 1.0}, [0, 1], HASH, "not numbers from -1000 to 1000"),
        ({"0": 0.0, "1": -1000.5}, [0, 1], HASH, "clusters 1 are not numbers from -1000 to 1000"),
        ({"0": 1.0}, [], HASH, "for each token"),
        ({"0": 1.0}, [0], '"; import os', "hexadecimal"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    deltas: dict[str, float], labels: list[int], clustering: str, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        check_clusters(deltas, np.array(labels, dtype=np.int64), clustering)
