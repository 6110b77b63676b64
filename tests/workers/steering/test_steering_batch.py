"""The steering of a batch: after any filtering and merging, every row of logits gets its own deltas and no other's."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from workers.steering.batch import BatchSteering, LabelTable, add_deltas, batch_steering, merge_batches
from workers.steering.request import Steering

CPU = torch.device("cpu")
WIDTH = 13  # of the logits; both vocabularies are smaller
LABELS = {"first": [0, 1, 2, 2, 1, 0, 2], "second": [1, 1, 0, 0, 4, 3, 2, 0, 1, 1]}


def steering(name: str, *deltas: float) -> Steering:
    return Steering(name, np.asarray(LABELS[name], dtype=np.uint8), np.asarray(deltas, dtype=np.float32))


def expected(logits: torch.Tensor, steerings: list[Steering | None]) -> torch.Tensor:
    steered = logits.clone()
    for row, wanted in zip(steered, steerings, strict=True):
        for token, label in enumerate([] if wanted is None else wanted.labels.tolist()):
            row[token] += float(wanted.deltas[label])  # type: ignore[union-attr]  # a None has no labels
    return steered


values = st.floats(-8, 8, width=32)
requests = st.one_of(
    st.none(),
    st.tuples(values, values, values).map(lambda deltas: steering("first", *deltas)),
    st.tuples(values, values, values, values, values).map(lambda deltas: steering("second", *deltas)),
)


@given(st.lists(st.tuples(st.lists(requests, min_size=1, max_size=5), st.randoms()), min_size=1, max_size=5))
def test_each_row_keeps_its_own_deltas_however_requests_join_and_leave(history: list) -> None:
    # Given a batch that requests join and leave, several times
    table = LabelTable()
    steerings: list[Steering | None] = []
    batch: BatchSteering | None = None
    for arriving, random in history:
        batch = merge_batches(batch, len(steerings), batch_steering(arriving, table, CPU), len(arriving))
        steerings += arriving
        kept = [index for index in range(len(steerings)) if random.random() < 0.7]
        steerings = [steerings[index] for index in kept]
        batch = None if batch is None else batch.select(torch.tensor(kept, dtype=torch.int64))
    # Then each row of the logits has the deltas of its request
    logits = torch.arange(len(steerings) * WIDTH, dtype=torch.float32).view(-1, WIDTH)
    if batch is None:
        assert all(wanted is None for wanted in steerings)
        return
    steered = logits.clone()
    add_deltas(steered, batch, table.labels(WIDTH, CPU))
    assert torch.allclose(steered, expected(logits, steerings))


def test_rows_without_steering_keep_their_bits() -> None:
    table = LabelTable()
    batch = batch_steering([None, steering("first", 1, 2, 3)], table, CPU)
    assert batch is not None
    logits = torch.full((2, WIDTH), -0.0)
    add_deltas(logits, batch, table.labels(WIDTH, CPU))
    assert torch.signbit(logits[0]).all()
