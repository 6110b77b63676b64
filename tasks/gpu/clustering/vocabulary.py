"""The text of every token of a tokenizer, and the two clusters that are made by rule.

**Texts.** A token alone and a token in a text can decode differently: SentencePiece drops the space of a first word,
and WordPiece puts spaces between tokens only.  So each token is decoded after an anchor, a token that is one letter,
and the anchor's own text is cut off.

**Cluster 0** holds the tokens that end a turn or a text, and nothing else.  A token is one of them when
1. it is the tokenizer's `eos_token_id`, or
2. the `generation_config.json` beside the tokenizer lists it as `eos_token_id`, or
3. the chat template writes it directly after an assistant's message, or
4. where no such file lists any, it is an added or special token with one of the `EOS_NAMES` that model families use.
So a raised token is one at which the server stops: one that only its name calls an end would be written, and the answer
would go on behind it.
A role that ends nothing (padding, beginning, unknown, reserved) does not put a token here.  A token that has such a
role and is also one of the above belongs here: many families pad with their end of text.

**Cluster 1** holds digits and arithmetic symbols, and nothing else.  A token belongs to it when its text, without the
spaces around it, is
- one of the `SYMBOLS` alone, or
- a word of digits (any script's decimal digits), `SYMBOLS`, and points or commas that each touch a digit,
  with at least one digit in it: "7", "2023", "$1", "3.14", "1,", ".5", "10%", "-3".
Two or more symbols without a digit ("**", "--", "==", "//") are markdown, rules and code, not arithmetic, and go to
k-means.  So do tokens with a line break in them.
"""

from __future__ import annotations

import json
import string
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

REPLACEMENT = "\ufffd"
"""Decoding writes it where the bytes of a token are only a part of a character."""


def vocabulary_size(tokenizer: PreTrainedTokenizerBase) -> int:
    """One more than the highest token id: tokens added above `vocab_size` count, and so do gaps between ids."""
    return max(len(tokenizer), max(tokenizer.get_vocab().values(), default=-1) + 1)


def decode_vocabulary(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The text of each token id, in the order of ids, `vocabulary_size` of them.

    A space that belongs to a token is kept ("" and " " are different tokens).  Bytes that are no whole character come
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
    # A decoder that cleans up spaces can drop the letter: then the text of the token alone is used.
    return [b[len(letter) :] if b.startswith(letter) else a for a, b in zip(alone, behind, strict=True)]


def _decode(tokenizer: PreTrainedTokenizerBase, sequences: list[list[int]]) -> list[str]:
    return list(
        tokenizer.batch_decode(sequences, skip_special_tokens=False, clean_up_tokenization_spaces=False),
    )


EOS_NAMES = frozenset(
    {
        "</s>",
        "<eos>",
        "[EOS]",
        "<|eos|>",
        "<|eot|>",
        "<|eot_id|>",
        "<|eom|>",
        "<|eom_id|>",
        "<|end|>",
        "<|return|>",
        "<|im_end|>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|end_of_turn|>",
        "<end_of_turn>",
        "<turn|>",
        "<|endofresponse|>",
        "<|END_OF_TURN_TOKEN|>",
        "<｜end▁of▁sentence｜>",
        "<|role_end|>",
        "[e~[",
    }
)

_MESSAGE = "whetstone-marks-the-answer"


def eos_tokens(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The ids of cluster 0. Empty when the tokenizer has no token that ends a turn or a text."""
    listed = _from_generation_config(tokenizer)
    ids = {tokenizer.eos_token_id} | listed | _from_template(tokenizer)
    if not listed:
        ids |= {i for text, i in _markers(tokenizer).items() if text in EOS_NAMES}
    size = vocabulary_size(tokenizer)
    return frozenset(i for i in ids if isinstance(i, int) and 0 <= i < size)


def _markers(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Every added or special token by its text, and no ordinary token."""
    markers = {token.content: i for i, token in tokenizer.added_tokens_decoder.items()}
    return markers | dict(zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True))


def _from_generation_config(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    path = _generation_config(str(tokenizer.name_or_path))
    if path is None:
        return set()
    listed: Any = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
    return set(listed) if isinstance(listed, list) else {listed} - {None}


def _generation_config(name: str) -> Path | None:
    """The file beside the tokenizer: in its folder, or what the hub or its cache has under the same name."""
    if not name:
        return None
    if Path(name).is_dir():
        path = Path(name) / "generation_config.json"
        return path if path.is_file() else None
    from transformers.utils.hub import cached_file

    cached = cached_file(
        name,
        "generation_config.json",
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return Path(cached) if cached else None


def _from_template(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """The marker that the chat template writes directly after an assistant's message, if it writes one."""
    # Imported here: the orchestrator's image, which reads clusterings, does not have it.
    from jinja2 import TemplateError

    if not tokenizer.chat_template:
        return set()
    messages = [{"role": "user", "content": "a question"}, {"role": "assistant", "content": _MESSAGE}]
    try:
        rendered = str(tokenizer.apply_chat_template(messages, tokenize=False))
    except TemplateError:
        return set()  # the template refuses a plain chat of two messages
    rest = rendered.rpartition(_MESSAGE)[2].lstrip()
    markers = _markers(tokenizer)
    first = max((text for text in markers if text and rest.startswith(text)), key=len, default=None)
    others = {tokenizer.bos_token_id, tokenizer.pad_token_id, tokenizer.unk_token_id}
    return set() if first is None or markers[first] in others else {markers[first]}


def classify_tokens(tokenizer: PreTrainedTokenizerBase) -> tuple[list[str], frozenset[int], frozenset[int]]:
    """The text of every token id, and the ids of clusters 0 and 1."""
    texts = decode_vocabulary(tokenizer)
    eos = eos_tokens(tokenizer)
    special = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    return texts, eos, number_tokens(texts, without=eos | special)


SYMBOLS = frozenset("+-*/=%$€£¥¢×÷±−")
"""Plus, hyphen-minus, asterisk, slash, equals, percent, five currencies, times, obelus, plus-minus, minus."""

_SEPARATORS = frozenset(".,")


def is_number_token(text: str) -> bool:
    """Whether a token with this text belongs to cluster 1."""
    word = text.strip(" ")
    if len(word) == 1 and word in SYMBOLS:
        return True
    if not any(character.isdecimal() for character in word):
        return False
    return all(_fits(word, position) for position in range(len(word)))


def number_tokens(texts: Sequence[str], without: Iterable[int]) -> frozenset[int]:
    """The ids of cluster 1, given the text of each id. `without`: ids never to take (special tokens, cluster 0)."""
    excluded = frozenset(without)
    return frozenset(i for i, text in enumerate(texts) if i not in excluded and is_number_token(text))


def _fits(word: str, position: int) -> bool:
    character = word[position]
    if character in _SEPARATORS:
        return word[position - 1 : position].isdecimal() or word[position + 1 : position + 2].isdecimal()
    return character.isdecimal() or character in SYMBOLS
