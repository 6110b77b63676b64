"""The steering of a batch, logits += deltas[labels], kept with the batch while requests join and leave it.

Building, filtering and merging it never waits for the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import pad

from .request import OPEN, Steering, next_state

try:
    import triton
    import triton.language as tl
except ImportError:  # a machine without a GPU
    triton = None

UNSTEERED = -1  # the table row of a request that asks for no steering
NO_STATE = -1
BLOCK = 4096  # columns of logits for one program of the kernel


class LabelTable:
    """One row of labels for each clustering, in the order of arrival: tensor [clusterings, width].

    Labels are shifted by one: 0 is for columns that logits have beyond the tokenizer, and has a delta of zero.
    A clustering has two rows where some requests steer cluster 0 after sentences only, and some everywhere.
    """

    def __init__(self) -> None:
        self._rows: dict[tuple[str, bool], int] = {}
        self._steerings: list[Steering] = []
        self._stacked: tuple[torch.Tensor, torch.Tensor] | None = None

    def row(self, steering: Steering | None) -> int:
        if steering is None:
            return UNSTEERED
        key = steering.clustering, steering.classes is None
        if key not in self._rows:
            self._rows[key] = len(self._steerings)
            self._steerings.append(steering)
        return self._rows[key]

    def labels(self, width: int, device: torch.device) -> torch.Tensor:
        """All rows as uint8 (int32 when a clustering has over 255 clusters) [clusterings, width]."""
        return self._tables(width, device)[0]

    def classes(self, width: int, device: torch.device) -> torch.Tensor:
        """Which tokens end a sentence (`next_state`), int8 [clusterings, width]: all, where that is not asked."""
        return self._tables(width, device)[1]

    def _tables(self, width: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """Moving them to the device waits for it, once for each new clustering."""
        shape = (len(self._steerings), width)
        if self._stacked is not None and self._stacked[0].shape == shape and self._stacked[0].device == device:
            return self._stacked
        highest = max(int(steering.labels.max()) for steering in self._steerings) + 1
        labels = torch.zeros(shape, dtype=torch.uint8 if highest <= 255 else torch.int32)
        classes = torch.zeros(shape, dtype=torch.int8)
        for row, steering in enumerate(self._steerings):
            size = len(steering.labels)  # the plugin has refused more than the vocabulary
            labels[row, :size] = torch.from_numpy(steering.labels.astype("int64") + 1)
            if steering.classes is None:
                classes[row] = OPEN
            else:
                classes[row, :size] = torch.from_numpy(steering.classes.astype("int8"))
        self._stacked = labels.to(device), classes.to(device)
        return self._stacked


@dataclass(frozen=True, eq=False)
class BatchSteering:
    deltas: torch.Tensor  # float32 [B, 1 + K], the first column 0
    label_rows: torch.Tensor  # int32 [B], of the `LabelTable`
    # int8 [B]: of each answer (`next_state`) when its prompt was read; NO_STATE for one that has begun already.
    states: torch.Tensor

    def __len__(self) -> int:
        return self.label_rows.shape[0]

    def select(self, indices: torch.Tensor) -> BatchSteering:
        return BatchSteering(self.deltas[indices], self.label_rows[indices], self.states[indices])


def batch_steering(
    steerings: Sequence[Steering | None], answers: Sequence[Sequence[int]], table: LabelTable, device: torch.device
) -> BatchSteering | None:
    """The steering of a new batch; None when no request is steered.  `answers`: tokens that requests have already."""
    if all(steering is None for steering in steerings):
        return None
    clusters = max(len(steering.deltas) for steering in steerings if steering)
    pinned = device.type == "cuda"
    deltas = torch.zeros(len(steerings), 1 + clusters, pin_memory=pinned)
    for row, steering in zip(deltas, steerings, strict=True):
        if steering is not None:
            row[1 : 1 + len(steering.deltas)] = torch.from_numpy(steering.deltas)
    label_rows = torch.tensor([table.row(s) for s in steerings], dtype=torch.int32, pin_memory=pinned)
    found = [0 if s is None else s.state(answer) for s, answer in zip(steerings, answers, strict=True)]
    states = torch.tensor(found, dtype=torch.int8, pin_memory=pinned)
    return BatchSteering(*(tensor.to(device, non_blocking=True) for tensor in (deltas, label_rows, states)))


def merge_batches(
    first: BatchSteering | None, first_length: int, second: BatchSteering | None, second_length: int
) -> BatchSteering | None:
    """The steering of two batches put together; where prompts are still to be read, they are those of the first."""
    like = second if first is None else first
    if like is None:
        return None
    first = _unsteered(first_length, like) if first is None else first
    second = _unsteered(second_length, like) if second is None else second
    width = max(first.deltas.shape[1], second.deltas.shape[1])
    deltas = [pad(batch.deltas, (0, width - batch.deltas.shape[1])) for batch in (first, second)]
    states = torch.cat([first.states, torch.full_like(second.states, NO_STATE)])
    return BatchSteering(torch.cat(deltas), torch.cat([first.label_rows, second.label_rows]), states)


def _unsteered(length: int, like: BatchSteering) -> BatchSteering:
    return BatchSteering(
        like.deltas.new_zeros(length, like.deltas.shape[1]),
        torch.full((length,), UNSTEERED, dtype=torch.int32, device=like.label_rows.device),
        torch.zeros(length, dtype=torch.int8, device=like.states.device),
    )


class Answers:
    """The state of each answer (`next_state`), on the device, by the place that the server has given its request."""

    def __init__(self, places: int, device: torch.device) -> None:
        self._states = torch.zeros(places, dtype=torch.int8, device=device)

    def begin(self, places: torch.Tensor, batch: BatchSteering) -> None:
        """Prompts have been read; `places` int64 [B]."""
        self._states[places] = torch.where(batch.states == NO_STATE, self._states[places], batch.states)

    def states(self, places: torch.Tensor) -> torch.Tensor:
        return self._states[places]

    def add(self, places: torch.Tensor, tokens: torch.Tensor, batch: BatchSteering, classes: torch.Tensor) -> None:
        """Each answer has one more token.  The state of one without steering (row -1) is never read."""
        found = classes[batch.label_rows.long(), tokens.long()]
        self._states[places] = next_state(self._states[places], found)


def biases(deltas: torch.Tensor, states: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """What is added to each token's logit [B, V]: `deltas` [B, 1 + K], `states` [B] and `labels` [B, V] of each row."""
    acting = deltas.clone()
    acting[:, 1] *= states & OPEN
    return acting.gather(1, labels.long())


def add_deltas(logits: torch.Tensor, batch: BatchSteering, states: torch.Tensor, labels: torch.Tensor) -> None:
    """Add to each steered row of logits [B, V], in place, the delta of each token's cluster; of 0 only where OPEN."""
    if logits.shape[0] != len(batch) or logits.shape[1] != labels.shape[1] or logits.stride(1) != 1:
        raise ValueError(f"{len(batch)} rows of {labels.shape[1]} labels do not fit logits of {list(logits.shape)}")
    if logits.is_cuda and triton is not None:
        grid = (logits.shape[0], triton.cdiv(logits.shape[1], BLOCK))
        _add_deltas[grid](
            logits, batch.deltas, batch.label_rows, states, labels,
            logits.shape[1], logits.stride(0), batch.deltas.stride(0), labels.stride(0), BLOCK=BLOCK,
        )  # fmt: skip
    else:
        steered = batch.label_rows[:, None] >= 0
        columns = torch.where(steered, labels[batch.label_rows.long()], 0)  # -1 finds the labels of another clustering
        logits.copy_(torch.where(steered, logits + biases(batch.deltas, states, columns), logits))


if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]  # Triton reads the signature, not the types
    def _add_deltas(  # type: ignore[no-untyped-def,unused-ignore]
        logits,
        deltas,
        label_rows,
        states,
        labels,
        width,
        logits_stride,
        deltas_stride,
        labels_stride,
        BLOCK: tl.constexpr,  # noqa: N803
    ):
        row = tl.program_id(0)
        label_row = tl.load(label_rows + row)
        if label_row >= 0:
            columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
            inside = columns < width
            label = tl.load(labels + label_row.to(tl.int64) * labels_stride + columns, mask=inside, other=0).to(
                tl.int32
            )
            delta = tl.load(deltas + row * deltas_stride + label, mask=inside, other=0.0)
            state = tl.load(states + row).to(tl.int32)
            delta = tl.where((label == 1) & ((state & 1) == 0), 0.0, delta)  # 1 is OPEN
            address = logits + row.to(tl.int64) * logits_stride + columns
            logit = tl.load(address, mask=inside, other=0.0)
            tl.store(address, (logit.to(tl.float32) + delta).to(logit.dtype), mask=inside)
