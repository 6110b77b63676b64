"""Control tokens, such as `<|im_start|>`: in a prompt only those that the chat template writes are tokens.

A tokenizer does not know who wrote a text, so `<|im_end|>` in a question would end the turn in which it stands.  Here
it is read as the characters that it is made of.  This is done with a second tokenizer: the same, but each control
token has a random name, which no text can contain.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

Messages = Sequence[Mapping[str, str]]
"""A chat: `role` and `content` of each message."""

_MARKER = re.compile(r"<\S+>|\[\S+\]")  # not white space or words, which some tokenizers add as tokens too


class PromptEncoder:
    """From chats to token ids, for the tokenizers of transformers; not for several threads at once."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._ids = control_tokens(tokenizer)
        longest_first = sorted(self._ids, key=len, reverse=True)
        self._any = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._texts: _TextTokenizer | None = None

    def encode(self, messages: Messages) -> list[int]:
        """The ids of a chat, up to where the next message begins."""
        written = next((found for m in messages if (found := self._find_written(m["content"]))), None)
        if written is None:
            ids = self._tokenizer.apply_chat_template(
                list(messages), add_generation_prompt=True, tokenize=True, return_dict=False
            )
            return [int(token) for token in ids]
        return self.encode_written(messages, written[0])

    def _find_written(self, text: str) -> re.Match[str] | None:
        """A control token in a text, or in what the tokenizer makes of the text before it looks for its tokens."""
        normalizer = getattr(getattr(self._tokenizer, "backend_tokenizer", None), "normalizer", None)
        return self._any.search(text) or (self._any.search(normalizer.normalize_str(text)) if normalizer else None)

    def encode_written(self, messages: Messages, written: str = "") -> list[int]:
        """As `encode`, by the second tokenizer; `written` is what the error quotes."""
        if self._texts is None:
            self._texts = _TextTokenizer(self._tokenizer, self._ids, written)
        texts = self._texts
        hidden = [{**m, "content": self._any.sub(lambda f: texts.stand_in(f[0]), m["content"])} for m in messages]
        chat = self._tokenizer.apply_chat_template(hidden, add_generation_prompt=True, tokenize=False)
        return texts.encode(self._any.sub(lambda f: texts.name(f[0]), chat))


@lru_cache(maxsize=4)
def prompt_encoder(tokenizer: Any) -> PromptEncoder:
    """The encoder of a tokenizer, made once."""
    return PromptEncoder(tokenizer)


def control_tokens(tokenizer: Any) -> dict[str, int]:
    """The text and the id of each: special tokens, and those other added ones that the chat template writes."""
    template = str(tokenizer.chat_template)
    return {
        token.content: int(number)
        for number, token in tokenizer.added_tokens_decoder.items()
        if token.content and (token.special or (_MARKER.fullmatch(token.content) and token.content in template))
    }


class _TextTokenizer:
    """A tokenizer without its control tokens: `ids` are known by random names, and their own texts are only text."""

    def __init__(self, tokenizer: Any, ids: Mapping[str, int], written: str) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise ValueError(
                f"the tokenizer of {tokenizer.name_or_path} is not built on the tokenizers library, so {written!r} in "
                "a question or a prompt cannot be sent as text: remove it there"
            )
        from tokenizers import Tokenizer

        self._nonce = secrets.token_hex(16)  # in no result: names are replaced by ids
        self._ids, self._texts = ids, {number: text for text, number in ids.items()}
        names = {text: self.name(text) for text in ids}
        self._tokenizer = Tokenizer.from_str(json.dumps(_renamed(json.loads(backend.to_str()), names)))
        self._id_of = {self._tokenizer.token_to_id(names[text]): number for text, number in ids.items()}

    def name(self, text: str) -> str:
        """What stands for a control token."""
        return f"<{self._nonce}:{self._ids[text]}>"

    def stand_in(self, text: str) -> str:
        """What stands for the text of a control token while the chat template is applied, which may trim and split."""
        return f"{self._nonce}x{self._ids[text]}x"

    def encode(self, chat: str) -> list[int]:
        """The ids of a chat in which control tokens are `name`s, and what is text may be a `stand_in`."""
        text = re.sub(rf"{self._nonce}x(\d+)x", lambda found: self._texts[int(found[1])], chat)
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        return [self._id_of.get(token, token) for token in ids]


def _renamed(backend: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The JSON of a `tokenizers.Tokenizer` in which control tokens have other names, in the model's vocabulary too.

    Otherwise the model could still join the characters of a text to one of them.
    """
    model = backend["model"]
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, dict):
        model["vocab"] = {names.get(text, text): number for text, number in vocabulary.items()}
    elif vocabulary is not None:  # Unigram: [text, score] of each token
        model["vocab"] = [[names.get(text, text), score] for text, score in vocabulary]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    if "merges" in model:
        model["merges"] = [pair for pair in model["merges"] if not names.keys() & {*pair, "".join(pair)}]
    added = [{**token, "content": names.get(token["content"], token["content"])} for token in backend["added_tokens"]]
    return {**backend, "added_tokens": added, "post_processor": None, "truncation": None, "padding": None}
