"""The kernel on a GPU against the same sum in torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from workers.steering.batch import LabelTable, add_deltas, batch_steering
from workers.steering.request import Steering

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("rows", "width", "clusters"), [(1, 49152, 14), (256, 128256, 14), (33, 152064, 300), (5, 7, 2)]
)
def test_the_kernel_adds_what_torch_adds(rows: int, width: int, clusters: int, dtype: torch.dtype) -> None:
    # Given two clusterings of different sizes, columns beyond both, and rows without steering
    random = np.random.default_rng(5)
    steerings = []
    for row in range(rows):
        name, count = (("a", clusters), ("b", 2))[row % 2]
        labels = np.random.default_rng(ord(name)).integers(0, count, width - 1 - row % 2).astype(np.uint16)
        deltas = random.normal(0, 3, count).astype(np.float32)
        classes = None if row % 3 == 0 else np.zeros(len(labels), np.uint8)
        steerings.append(None if row % 5 == 4 else Steering(name, labels, deltas, classes))
    table, gpu = LabelTable(), torch.device("cuda")
    batch = batch_steering(steerings, [[]] * rows, table, gpu)
    assert batch is not None
    logits = torch.randn(rows, width, device=gpu, dtype=dtype)
    expected = logits.float()
    for row, wanted in enumerate(steerings):
        if wanted is not None:
            bias = torch.from_numpy(wanted.deltas[wanted.labels]).to(gpu)
            if wanted.classes is not None:  # no sentence has ended
                bias[torch.from_numpy(wanted.labels == 0).to(gpu)] = 0
            expected[row, : len(bias)] += bias
    # When the kernel adds them in place
    add_deltas(logits, batch, batch.states, table.labels(width, gpu))
    # Then every logit is the same, to the bit
    assert torch.equal(logits, expected.to(dtype))
