"""Choosing the next token."""

from __future__ import annotations

import torch

from workers.embedded.target.protocol import SamplingParams
from workers.embedded.target.sampling import Sampler


def test_greedy_takes_the_lowest_of_equal_tokens() -> None:
    draw = torch.Generator().manual_seed(0)
    sampler = Sampler(SamplingParams(temperature=0.0))
    for size in (5, 1000, 49152, 151_936):
        for _ in range(20):
            logits = torch.zeros(size)
            equal = torch.randint(size, (7,), generator=draw)
            logits[equal] = 3.5
            assert sampler.choose(logits) == int(equal.min())


def test_top_p_leaves_only_what_it_says() -> None:
    logits = torch.log(torch.tensor([0.05, 0.5, 0.15, 0.3]))

    def reached(**sampling: float) -> set[int]:
        sampler = Sampler(SamplingParams.model_validate({"temperature": 1.0, "sampling_seed": 1, **sampling}))
        return {sampler.choose(logits) for _ in range(300)}

    assert reached() == {0, 1, 2, 3}
    assert reached(top_p=0.79) == {1, 3}
    assert reached(top_p=0.81) == {1, 2, 3}
    assert reached(top_p=0.01) == {1}
