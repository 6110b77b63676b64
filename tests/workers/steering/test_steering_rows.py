"""The rows of a batch: whatever is filtered and merged, every row of logits gets its own deltas and no other's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workers.steering.bank import LabelTable
from workers.steering.kernel import add_deltas
from workers.steering.parameters import Steering
from workers.steering.rows import Rows, joined, rows_of

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
def test_any_history_of_a_batch_steers_as_its_requests_say(history: list) -> None:
    # Given a batch that others join and that requests leave, over and over
    bank = LabelTable()
    steerings: list[Steering | None] = []
    rows: Rows | None = None
    for arriving, random in history:
        rows = joined(rows, len(steerings), rows_of(arriving, bank, CPU), len(arriving))
        steerings += arriving
        kept = [index for index in range(len(steerings)) if random.random() < 0.7]
        steerings = [steerings[index] for index in kept]
        rows = None if rows is None else rows.select(torch.tensor(kept, dtype=torch.int64))
    # Then each row of the logits has what its request asked for
    logits = torch.arange(len(steerings) * WIDTH, dtype=torch.float32).view(-1, WIDTH)
    if rows is None:
        assert all(wanted is None for wanted in steerings)
        return
    steered = logits.clone()
    add_deltas(steered, rows, bank.labels(WIDTH, CPU))
    assert torch.allclose(steered, expected(logits, steerings))


def test_rows_without_steering_keep_their_bits() -> None:
    bank = LabelTable()
    rows = rows_of([None, steering("first", 1, 2, 3)], bank, CPU)
    assert rows is not None
    logits = torch.full((2, WIDTH), -0.0)
    add_deltas(logits, rows, bank.labels(WIDTH, CPU))
    assert torch.signbit(logits[0]).all()


def test_labels_go_to_the_device_once_for_each_clustering() -> None:
    bank = LabelTable()
    bank.place(steering("first", 0, 0, 0))
    first = bank.labels(WIDTH, CPU)
    assert bank.place(steering("first", 1, 1, 1)) == 0 and bank.labels(WIDTH, CPU) is first
    assert bank.place(steering("second", 0, 0, 0, 0, 0)) == 1 and bank.labels(WIDTH, CPU).shape == (2, WIDTH)


def test_more_clusters_than_a_byte_tells_apart() -> None:
    bank = LabelTable()
    many = Steering("many", np.arange(300, dtype=np.uint16), np.arange(300, dtype=np.float32))
    rows = rows_of([many], bank, CPU)
    assert rows is not None
    logits = torch.zeros(1, 300)
    add_deltas(logits, rows, bank.labels(300, CPU))
    assert logits[0].tolist() == list(range(300))


def test_what_does_not_fit_is_an_error() -> None:
    bank = LabelTable()
    rows = rows_of([steering("first", 1, 2, 3)], bank, CPU)
    assert rows is not None
    with pytest.raises(ValueError, match="do not fit logits"):
        add_deltas(torch.zeros(2, WIDTH), rows, bank.labels(WIDTH, CPU))
    with pytest.raises(ValueError, match="do not fit a vocabulary of 3"):
        bank.labels(3, CPU)


def test_the_module_imports_nothing_of_ours() -> None:
    folder = Path(__file__).parents[3] / "workers/steering"
    assert not [path.name for path in folder.glob("*.py") if "from workers" in path.read_text()]
