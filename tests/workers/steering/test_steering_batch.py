"""The steering of a batch: whatever joins and leaves, every row of logits has its own deltas, and the end of a turn is
raised only where that row's answer has just ended a sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.steering.batch import (
    Answers,
    BatchSteering,
    LabelTable,
    add_deltas,
    batch_steering,
    merge_batches,
)
from workers.steering.request import Steering

CPU = torch.device("cpu")
WIDTH = 13  # of the logits; both vocabularies are smaller
PLACES = 64
LABELS = {"first": [0, 1, 2, 2, 1, 0, 2], "second": [1, 1, 0, 0, 4, 3, 2, 0, 1, 1]}
TEXTS = {
    "first": [".", "2", "2.", "no.", "!", "a", "3"],
    "second": ["1", ".", "?", "x", "2.", ".", "7", "b.", "c", "d"],
}
CLASS = {".": 4, "2": 2, "1": 2, "3": 2, "7": 2, "no.": 1, "b.": 1, "!": 1, "?": 1}


def steering(name: str, after_sentence: bool, *deltas: float) -> Steering:
    classes = np.asarray([CLASS.get(text, 0) for text in TEXTS[name]], dtype=np.uint8) if after_sentence else None
    return Steering(name, np.asarray(LABELS[name], dtype=np.uint8), np.asarray(deltas, dtype=np.float32), classes)


@dataclass
class Request:
    wanted: Steering | None
    place: int
    answer: list[int] = field(default_factory=list)

    def may_end(self) -> bool:
        """By the texts of its tokens."""
        assert self.wanted is not None
        if self.wanted.classes is None:
            return True
        words = [TEXTS[self.wanted.clustering][t] if t < len(self.wanted.labels) else "" for t in self.answer]
        last, before = ["", "", *words][-1], ["", "", *words][-2]
        return last in ("no.", "b.", "!", "?") or (last == "." and not before[-1:].isdigit())

    def steered(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits [WIDTH] by plain arithmetic."""
        expected = logits.clone()
        if self.wanted is not None:
            for token, label in enumerate(self.wanted.labels.tolist()):
                expected[token] += float(self.wanted.deltas[label]) if label or self.may_end() else 0.0
        return expected


values = st.floats(-8, 8, width=32)
steerings = st.one_of(
    st.none(),
    st.builds(steering, st.just("first"), st.booleans(), values, values, values),
    st.builds(steering, st.just("second"), st.booleans(), values, values, values, values, values),
)


class Server:
    """A batch as SGLang drives it: prompts are read in a batch of their own, which then joins the one that decodes."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.table, self.answers = LabelTable(), Answers(PLACES, CPU)
        self.requests: list[Request] = []
        self.batch: BatchSteering | None = None
        self.free = list(range(PLACES))

    def read_prompts(self, requests: list[Request], mixed: bool) -> None:
        """`mixed`: together with a step of the others."""
        arriving = batch_steering([r.wanted for r in requests], [r.answer for r in requests], self.table, CPU)
        if mixed:
            self.batch = merge_batches(arriving, len(requests), self.batch, len(self.requests))
            self.requests = [*requests, *self.requests]
            self.step(self.batch, self.requests, decodes=False)
        else:
            self.step(arriving, requests, decodes=False)
            self.batch = merge_batches(self.batch, len(self.requests), arriving, len(requests))
            self.requests = [*self.requests, *requests]

    def step(self, batch: BatchSteering | None, requests: list[Request], decodes: bool = True) -> None:
        tokens = torch.tensor([self.random.randrange(WIDTH) for _ in requests])
        if batch is not None:
            logits = torch.arange(len(requests) * WIDTH, dtype=torch.float32).view(-1, WIDTH)
            places = torch.tensor([request.place for request in requests])
            if not decodes:
                self.answers.begin(places, batch)
            steered = logits.clone()
            add_deltas(steered, batch, self.answers.states(places), self.table.labels(WIDTH, CPU))
            expected = [request.steered(row) for request, row in zip(requests, logits, strict=True)]
            assert torch.allclose(steered, torch.stack(expected))
            self.answers.add(places, tokens, batch, self.table.classes(WIDTH, CPU))
        else:
            assert all(request.wanted is None for request in requests)
        for request, token in zip(requests, tokens.tolist(), strict=True):
            request.answer.append(token)

    def leave(self) -> list[Request]:
        """Some end; of some the memory is needed, and their prompt with their answer is read again: those come back."""
        kept = [index for index in range(len(self.requests)) if self.random.random() < 0.7]
        gone = [request for index, request in enumerate(self.requests) if index not in kept]
        self.requests = [self.requests[index] for index in kept]
        self.batch = None if self.batch is None or not kept else self.batch.select(torch.tensor(kept))
        self.free += [request.place for request in gone]
        return [request for request in gone if self.random.random() < 0.5]


@settings(deadline=None)
@given(st.lists(st.lists(steerings, min_size=1, max_size=5), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_each_row_has_what_its_own_answer_and_deltas_say_however_requests_join_and_leave(
    history: list[list[Steering | None]], random: Random
) -> None:
    server, returning = Server(random), []
    for arriving in history:
        requests = [Request(wanted, 0) for wanted in arriving] + returning
        for request in requests:
            request.place = server.free.pop(random.randrange(len(server.free)))
        server.read_prompts(requests, mixed=random.random() < 0.3)
        for _ in range(random.randrange(4)):
            server.step(server.batch, server.requests)
        returning = server.leave()


def test_rows_without_steering_keep_their_bits() -> None:
    table = LabelTable()
    batch = batch_steering([None, steering("first", True, 1, 2, 3)], [[], []], table, CPU)
    assert batch is not None
    logits = torch.full((2, WIDTH), -0.0)
    add_deltas(logits, batch, batch.states, table.labels(WIDTH, CPU))
    assert torch.signbit(logits[0]).all()
