"""Cluster 0: the tokens that end a turn or a text, and nothing else (evolution_plan.md section 2.5).

A token is one of them when any of these says so:
1. it is the tokenizer's `eos_token_id`;
2. the `generation_config.json` beside the tokenizer lists it as `eos_token_id`;
3. the chat template writes it directly after an assistant's message;
4. it is an added or special token with one of the `NAMES` that model families use for this.

Roles that do not end anything (padding, beginning, unknown, reserved) never put a token here.  A token that has such a
role and is also one of the above stays: many families pad with their end of text.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from tasks.gpu.clustering.vocabulary import vocabulary_size

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

NAMES = frozenset(
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


def end_tokens(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The ids of cluster 0. Empty when the tokenizer has no token that ends anything."""
    found = {tokenizer.eos_token_id} | _from_generation_config(tokenizer) | _from_template(tokenizer)
    found |= {i for text, i in _markers(tokenizer).items() if text in NAMES}
    size = vocabulary_size(tokenizer)
    return frozenset(i for i in found if isinstance(i, int) and 0 <= i < size)


def _markers(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Every added or special token by its text. Ordinary tokens that merely spell a name are not among them."""
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

    found = cached_file(
        name,
        "generation_config.json",
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return Path(found) if found else None


def _from_template(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """The marker that the chat template writes directly after an assistant's message, if it writes one."""
    if not tokenizer.chat_template:
        return set()
    messages = [{"role": "user", "content": "a question"}, {"role": "assistant", "content": _MESSAGE}]
    try:
        rendered = str(tokenizer.apply_chat_template(messages, tokenize=False))
    except TemplateError:
        return set()  # a template that refuses a plain two-message chat says nothing of how a turn ends
    rest = rendered.rpartition(_MESSAGE)[2].lstrip()
    markers = _markers(tokenizer)
    first = max((text for text in markers if text and rest.startswith(text)), key=len, default=None)
    others = {tokenizer.bos_token_id, tokenizer.pad_token_id, tokenizer.unk_token_id}
    return set() if first is None or markers[first] in others else {markers[first]}
