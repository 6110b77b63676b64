"""The target's tokenizer without transformers: what a gpu worker described, over the tokenizers library.

Encoding is that library's, as it is inside the tokenizers of transformers; the text of each single token was decoded
by the model's own tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tasks.store.store import Store


@dataclass(frozen=True)
class AddedToken:
    special: bool


@dataclass(frozen=True)
class StoredTokenizer:
    """What a collection needs of a tokenizer, under the names that transformers gives it."""

    backend: str  # the JSON of `tokenizers.Tokenizer`
    texts: Sequence[str]  # [highest id + 1], decode([id]) of each
    all_special_ids: list[int]
    marked: Sequence[int]
    eos_token_id: int | None

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> StoredTokenizer:
        return cls(values["backend"], values["texts"], values["special"], values["marked"], values["eos"])

    @property
    def added_tokens_decoder(self) -> Mapping[int, AddedToken]:
        return {i: AddedToken(True) for i in self.marked}

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of one token; that of several is unknown."""
        [token] = token_ids
        return self.texts[token]


@lru_cache(maxsize=2)
def encoder(run_id: str, key: str, store: Store) -> Any:
    """The `tokenizers.Tokenizer` of a description in the store, loaded once for each process."""
    from tokenizers import Tokenizer

    found = Tokenizer.from_str(store.shared(run_id, [key])[key]["backend"])
    # A tokenizer's file may say that texts are cut or filled up; here they are measured as they are.
    found.no_truncation()
    found.no_padding()
    found.encode_special_tokens = True  # one that is written out in a text is text
    return found


def encode(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Token ids of each text, without the special tokens that a model's input begins or ends with."""
    return [list(found.ids) for found in tokenizer.encode_batch(list(texts), add_special_tokens=False)]
