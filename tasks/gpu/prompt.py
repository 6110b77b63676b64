"""Prompts of the target: from a question to token ids, and the tokens that end the answer to it.

Only the chat template writes control tokens, such as `<|im_start|>`.  A tokenizer does not know who wrote a text, so
`<|im_end|>` in a question would end the turn in which it stands.  Here it is read as the characters that it is made of,
with a second tokenizer: the same, but each control token has a random name, which no text can contain.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from itertools import cycle
from pathlib import Path
from typing import Any

from tasks.common.text import fill

# Neither the import of transformers nor a tokenizer may be used by several threads at once: hold this around both.
TOKENIZER_LOCK = threading.Lock()

Messages = Sequence[Mapping[str, Any]]  # a chat: `role` and `content` of each
# For a template that writes today's date: prompts are the same on every day.  Llama's own writes this one by default.
DATE = datetime(2024, 7, 26, tzinfo=UTC)
_FIXED_CLOCK = "".join([  # transformers takes no function from its caller
    "{% macro strftime_now(format) %}{{ format",
    *(f" | replace('%{one}', '{DATE.strftime(f'%{one}')}')" for one in ("-d", "-m", *"aAbBcdDefFHIjmMpRSTUwWxXyYzZ%")),
    " }}{% endmacro %}",
])  # fmt: skip

_MARKER = re.compile(r"<\S+>|\[\S+\]")  # not white space or words, which some tokenizers add as tokens too


@lru_cache(maxsize=4)
def load_tokenizer(model: str) -> Any:
    """Of a folder or a Hugging Face id, once for each process."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model, trust_remote_code=False)


def load_early(model: str) -> None:
    """Load a tokenizer in the background: the import alone takes seconds, and the GPU would wait."""

    def load() -> None:
        # The task that needs the tokenizer reports the error.
        with TOKENIZER_LOCK, suppress(OSError, ValueError):
            load_tokenizer(model)

    threading.Thread(target=load, name="tokenizer", daemon=True).start()


def render(tokenizer: Any, system: str, template: str, context: str, query: str) -> list[int]:
    """The token ids of one prompt: system ("": the model's own default) and filled template, up to the answer."""
    return render_chat(tokenizer, system, fill(template, {"context": context, "query": query}))


def render_chat(tokenizer: Any, system: str, *turns: str) -> list[int]:
    """The token ids of a system message ("" for none) and the turns of user and assistant, up to the next answer."""
    if not tokenizer.chat_template:
        raise ValueError(
            f"the tokenizer of {tokenizer.name_or_path} has no chat template: use an instruction-tuned model"
        )
    if not takes_text(tokenizer):
        raise ValueError(
            f"the chat template of {tokenizer.name_or_path} does not write the question as it is; use another model"
            + (": this one is for messages of several parts, such as images" if _takes_parts(tokenizer) else "")
        )
    if system and not takes_system(tokenizer):
        system, turns = "", (f"{system}\n\n{turns[0]}", *turns[1:])
    messages = [{"role": "system", "content": system}] if system else []
    messages += [{"role": role, "content": text} for role, text in zip(cycle(("user", "assistant")), turns)]
    return prompt_encoder(tokenizer).encode(messages)


@lru_cache(maxsize=4)
def takes_system(tokenizer: Any) -> bool:
    """Whether the chat template writes a system message: Gemma's refuses one, others leave it out.

    Without, the system prompt stands at the beginning of the user's turn.
    """
    chat = [{"role": "system", "content": _MESSAGE}, {"role": "user", "content": "a question"}]
    return _MESSAGE in _rendered(tokenizer, chat, "")


@lru_cache(maxsize=4)
def takes_text(tokenizer: Any) -> bool:
    """Whether the chat template writes a question that is a text: some go through the parts of one, and drop others."""
    return _MESSAGE in _rendered(tokenizer, [{"role": "user", "content": _MESSAGE}], _MESSAGE)


def _takes_parts(tokenizer: Any) -> bool:
    part = {"type": "text", "text": _MESSAGE}
    written = _rendered(tokenizer, [{"role": "user", "content": [part]}], "")
    return _MESSAGE in written and str(part) not in written


def template_notes(tokenizer: Any) -> list[str]:
    """What a chat template does that one may not expect of it."""
    notes = [] if takes_system(tokenizer) else ["has no system message: system prompts stand before the questions"]
    return notes + [f"writes the date: {DATE:%d %b %Y} in all prompts of a run"] * _writes_date(tokenizer)


def _writes_date(tokenizer: Any) -> bool:
    return "strftime_now" in str(tokenizer.chat_template)


def _apply(tokenizer: Any, chat: Messages, **options: Any) -> Any:
    if _writes_date(tokenizer):
        options["chat_template"] = _FIXED_CLOCK + tokenizer.get_chat_template()
    return tokenizer.apply_chat_template(list(chat), **options)


def _rendered(tokenizer: Any, chat: Messages, refused: str) -> str:
    """A chat as the template writes it, or `refused` where it refuses that."""
    from jinja2 import TemplateError  # here: the orchestrator's image, which reads clusterings, does not have it

    try:
        return str(_apply(tokenizer, chat, tokenize=False))
    except (TemplateError, TypeError):
        return refused


EOS_NAMES = frozenset((  # used only where no generation_config.json lists an end: see `answer_ends`
    "</s>", "<eos>", "[EOS]", "<|eos|>", "<|eot|>", "<|eot_id|>", "<|eom|>", "<|eom_id|>", "<|end|>", "<|return|>",
    "<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|end_of_turn|>", "<end_of_turn>", "<turn|>", "<|role_end|>",
    "<|endofresponse|>", "<|END_OF_TURN_TOKEN|>", "<｜end▁of▁sentence｜>", "[e~[",
))  # fmt: skip
_MESSAGE = "whetstone-marks-the-answer"


@lru_cache(maxsize=4)
def answer_ends(tokenizer: Any) -> frozenset[int]:
    """The tokens that end an answer: at which a request stops, the decoder stops, and which cluster 0 holds.

    They are
    1. the tokenizer's `eos_token_id`,
    2. what the `generation_config.json` beside the tokenizer lists as `eos_token_id`,
    3. the token that the chat template writes directly after an assistant's message, and
    4. where no such file lists any, the added or special tokens with one of the `EOS_NAMES` that model families use.
    One that pads, begins or stands for the unknown is an end only by the first two: many pad with their end of text.
    """
    listed = _from_generation_config(str(tokenizer.name_or_path))
    markers = {token.content: i for i, token in tokenizer.added_tokens_decoder.items()}
    markers |= dict(zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True))
    ids = {tokenizer.eos_token_id} | listed | _from_template(tokenizer, markers)
    if not listed:
        ids |= {i for text, i in markers.items() if text in EOS_NAMES}
    size = vocabulary_size(tokenizer)
    return frozenset(i for i in ids if isinstance(i, int) and 0 <= i < size)


def vocabulary_size(tokenizer: Any) -> int:
    """One more than the highest token id: tokens added above `vocab_size` count, and so do gaps between ids."""
    return max(len(tokenizer), max(tokenizer.get_vocab().values(), default=-1) + 1)


def _from_generation_config(name: str) -> set[int]:
    """From the tokenizer's folder, or what the hub or its cache has under the same name."""
    if not name:
        return set()
    path: str | Path | None = Path(name) / "generation_config.json"
    if not Path(name).is_dir():
        from transformers.utils.hub import cached_file

        path = cached_file(
            name,
            "generation_config.json",
            _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    if path is None or not Path(path).is_file():
        return set()
    listed: Any = json.loads(Path(path).read_text(encoding="utf-8")).get("eos_token_id")
    return set(listed) if isinstance(listed, list) else {listed} - {None}


def _from_template(tokenizer: Any, markers: Mapping[str, int]) -> set[int]:
    """The marker that the chat template writes directly after an assistant's message, if it writes one."""
    if not tokenizer.chat_template:
        return set()
    chat = [{"role": "user", "content": "a question"}, {"role": "assistant", "content": _MESSAGE}]
    rest = _rendered(tokenizer, chat, "").rpartition(_MESSAGE)[2].lstrip()
    first = max((text for text in markers if text and rest.startswith(text)), key=len, default=None)
    others = {tokenizer.bos_token_id, tokenizer.pad_token_id, tokenizer.unk_token_id}
    return set() if first is None or markers[first] in others else {markers[first]}


class PromptEncoder:
    """From chats to token ids; not for several threads at once."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._ids = control_tokens(tokenizer)
        self._texts = {number: text for text, number in self._ids.items()}
        longest_first = sorted(self._ids, key=len, reverse=True)
        self._any = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._nonce = secrets.token_hex(16)  # in no result: names are replaced by ids

    def encode(self, messages: Messages) -> list[int]:
        """The ids of a chat, up to where the next message begins."""
        written = next((found for m in messages if (found := self._find_written(m["content"]))), None)
        if written is None:
            ids = _apply(self._tokenizer, messages, add_generation_prompt=True, tokenize=True, return_dict=False)
            return [int(token) for token in ids]
        if getattr(self._tokenizer, "backend_tokenizer", None) is None:
            raise ValueError(
                f"the tokenizer of {self._tokenizer.name_or_path} is not built on the tokenizers library, so "
                f"{written[0]!r} in a question or a prompt cannot be sent as text: remove it there"
            )
        return self.encode_written(messages)

    def _find_written(self, text: str) -> re.Match[str] | None:
        """A control token in a text, or in what the tokenizer makes of the text before it looks for its tokens."""
        normalizer = getattr(getattr(self._tokenizer, "backend_tokenizer", None), "normalizer", None)
        return self._any.search(text) or (self._any.search(normalizer.normalize_str(text)) if normalizer else None)

    def encode_written(self, messages: Messages) -> list[int]:
        """As `encode`, by the second tokenizer.

        While the chat template is applied, which may trim and split, a stand-in has the place of what is only text.
        """
        hidden = [
            {**m, "content": self._any.sub(lambda f: f"{self._nonce}x{self._ids[f[0]]}x", m["content"])}
            for m in messages
        ]
        chat = _apply(self._tokenizer, hidden, add_generation_prompt=True, tokenize=False)
        named = self._any.sub(lambda found: self._name(found[0]), chat)
        text = re.sub(rf"{self._nonce}x(\d+)x", lambda found: self._texts[int(found[1])], named)
        tokenizer, id_of = self._second
        return [id_of.get(token, token) for token in tokenizer.encode(text, add_special_tokens=False).ids]

    def _name(self, text: str) -> str:
        return f"<{self._nonce}:{self._ids[text]}>"

    @cached_property
    def _second(self) -> tuple[Any, dict[int | None, int]]:
        """The tokenizer without its control tokens, which it knows by random names; of each name's id the real one."""
        from tokenizers import Tokenizer

        names = {text: self._name(text) for text in self._ids}
        renamed = _renamed(json.loads(self._tokenizer.backend_tokenizer.to_str()), names)
        tokenizer = Tokenizer.from_str(json.dumps(renamed))
        return tokenizer, {tokenizer.token_to_id(names[text]): number for text, number in self._ids.items()}


@lru_cache(maxsize=4)
def prompt_encoder(tokenizer: Any) -> PromptEncoder:
    return PromptEncoder(tokenizer)


def control_tokens(tokenizer: Any) -> dict[str, int]:
    """The text and the id of each: special tokens, and those other added ones that the chat template writes."""
    template = str(tokenizer.chat_template)
    return {
        token.content: int(number)
        for number, token in tokenizer.added_tokens_decoder.items()
        if token.content and (token.special or (_MARKER.fullmatch(token.content) and token.content in template))
    }


def _renamed(backend: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The JSON of a `tokenizers.Tokenizer` in which control tokens have other names.

    In the model's vocabulary too, or else it could join the characters of a text to one of them.
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
