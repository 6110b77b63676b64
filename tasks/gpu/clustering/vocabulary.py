"""The text of every token of a tokenizer, as the token appears in the middle of a text.

A token alone and a token in a text can decode differently: SentencePiece drops the space of a first word, and
WordPiece puts spaces between tokens only.  So each token is decoded behind an anchor, a token that is one letter,
and the anchor's own text is cut off.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

REPLACEMENT = "\ufffd"
"""What decoding puts where the bytes of a token are only a part of a character."""


def vocabulary_size(tokenizer: PreTrainedTokenizerBase) -> int:
    """One more than the highest token id: tokens added above `vocab_size` count, and so do gaps between ids."""
    return max(len(tokenizer), max(tokenizer.get_vocab().values(), default=-1) + 1)


def decode_vocabulary(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The text of each token id, in the order of ids, `vocabulary_size` of them.

    A space that belongs to a token stays ("" and " " are different tokens).  Bytes that are no whole character come
    out as U+FFFD, special tokens as their names, and ids that no token has as "".
    """
    size = vocabulary_size(tokenizer)
    known = set(tokenizer.get_vocab().values())
    special = {i: token.content for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    plain = [i for i in range(size) if i in known and i not in special]
    texts = [special.get(i, "") for i in range(size)]
    for i, text in zip(plain, _decode_behind_anchor(tokenizer, plain), strict=True):
        texts[i] = text
    return texts


def _decode_behind_anchor(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> list[str]:
    alone = _decode(tokenizer, [[i] for i in ids])
    letters = set(string.ascii_lowercase)
    anchor = next(((i, text) for i, text in zip(ids, alone, strict=True) if text in letters), None)
    if anchor is None:
        return alone
    anchor_id, letter = anchor
    behind = _decode(tokenizer, [[anchor_id, i] for i in ids])
    # A decoder that rewrites its neighbours (the clean-up of spaces) can lose the letter: then the token alone it is.
    return [b[len(letter) :] if b.startswith(letter) else a for a, b in zip(alone, behind, strict=True)]


def _decode(tokenizer: PreTrainedTokenizerBase, sequences: list[list[int]]) -> list[str]:
    return list(
        tokenizer.batch_decode(sequences, skip_special_tokens=False, clean_up_tokenization_spaces=False),
    )
