"""Where an answer has just ended a sentence: from the classes of its tokens, one token after the other.

The classes are those of `tasks.gpu.clustering.vocabulary`.  A state has the bit OPEN after a token that ends a
sentence, and the bit DIGIT after one whose last character is a digit; before an answer's first token it is 0.  The
arithmetic is the same for a number and for a tensor of int8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import torch

OPEN, DIGIT = 1, 2
State = TypeVar("State", int, "torch.Tensor")


def next_state(state: State, token_class: State) -> State:
    """The state after one more token.  Bit 4 of a class is a "." that counts unless a digit came before."""
    return token_class & (OPEN | DIGIT) | (token_class >> 2) & ~(state >> 1) & OPEN
