"""Which tokens end a sentence: a class for each token, from the token's text alone.

A token ends a sentence when its text, without the white space, quotes and brackets at its end, ends in a character
with the Unicode property Sentence_Terminal.  A "." behind a digit does not count: within the token, or where the token
before it ends with a digit ("2" and "." of 2.6).  `workers.steering.sentence_ends` applies the classes to an answer.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import regex

from tasks.common.files import write_atomic
from tasks.gpu.clustering.vocabulary import decode_vocabulary
from tasks.gpu.prompt import TOKENIZER_LOCK, load_tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ENDS, DIGIT, UNLESS_DIGIT = 1, 2, 4
"""Bits of a class: the token ends a sentence; its last character is a digit; it ends one unless a digit came before."""

_END = regex.compile(r"""(.?)(\p{Sentence_Terminal})[\s\p{Pe}\p{Pf}\p{Pi}"']*$""", regex.DOTALL)


def token_class(text: str) -> int:
    """The class of a token with this text."""
    if text[-1:].isdecimal():
        return DIGIT
    if (found := _END.search(text)) is None:
        return 0
    before, end = found.groups()
    if end != ".":
        return ENDS
    if not before:
        return UNLESS_DIGIT
    return 0 if before.isdecimal() else ENDS


def token_classes(texts: Sequence[str]) -> NDArray[np.uint8]:
    """The class of each token [V]; `texts` as of `decode_vocabulary`."""
    import numpy as np

    return np.fromiter(map(token_class, texts), np.uint8, len(texts))


@lru_cache(maxsize=2)
def sentence_ends(model_folder: str) -> NDArray[np.uint8]:
    """The class of each token of a model's tokenizer [V]."""
    with TOKENIZER_LOCK:
        return token_classes(decode_vocabulary(load_tokenizer(model_folder)))


def write_sentence_ends(model_folder: str, clustering: str, folder: Path) -> Path:
    """Write `<clustering>.ends.npy` beside the labels; of one that exists, record the use."""
    import numpy as np

    path = folder / f"{clustering}.ends.npy"
    try:
        os.utime(path)  # as `write_labels`
    except FileNotFoundError:
        out = io.BytesIO()
        np.save(out, sentence_ends(model_folder), allow_pickle=False)
        write_atomic(path, out.getvalue())
    return path
