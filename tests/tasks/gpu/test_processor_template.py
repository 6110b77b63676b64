"""The template of generated files: deltas and labels that do not belong together are refused."""

from __future__ import annotations

import numpy as np
import pytest
from test_processor import HASH

from tasks.gpu.processor_template import check_clusters, min_tokens_sentence, with_min_tokens
from tasks.gpu.sglang_file import FIXED


def test_the_usage_says_the_least_number_of_tokens_where_there_is_one() -> None:
    said = " ".join(min_tokens_sentence("Send $count.", 14).split())
    assert said.startswith("The deltas were found with answers of at least 14 tokens;") and said.endswith(". Send 14.")
    assert min_tokens_sentence("Send $count.", 0) == "" and with_min_tokens(FIXED, 0) == FIXED
    told = with_min_tokens(FIXED, 14).usage
    assert told.startswith(FIXED.usage) and '"min_new_tokens": 14 in its "sampling_params"' in " ".join(told.split())
    assert all(len(line) <= 120 for line in told.splitlines())


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
