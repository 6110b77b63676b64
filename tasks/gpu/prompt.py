"""Prompts of the target: from a question to token ids, through the model's chat template."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import lru_cache
from itertools import cycle
from typing import Any

from tasks.gpu.control_tokens import prompt_encoder
from tasks.template import fill

# Neither the import of transformers nor a tokenizer may be used by several threads at once: hold this around both.
TOKENIZER_LOCK = threading.Lock()


@lru_cache(maxsize=4)
def load_tokenizer(model: str) -> Any:
    """The tokenizer of a folder or a Hugging Face id, loaded once for each process."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model, trust_remote_code=False)


def load_early(model: str) -> None:
    """Start to load a tokenizer in the background: the import alone takes seconds, and the GPU would wait."""

    def load() -> None:
        # The task that needs the tokenizer reports the error.
        with TOKENIZER_LOCK, suppress(OSError, ValueError):
            load_tokenizer(model)

    threading.Thread(target=load, name="tokenizer", daemon=True).start()


def render(tokenizer: Any, system: str, template: str, context: str, query: str) -> list[int]:
    """The token ids of one prompt: system and filled template as a chat, up to where the answer begins.

    `{context}` and `{query}` in the template are replaced (see `tasks.template`).  Without a system
    prompt the model's own default applies.  Only the chat template writes control tokens: `<|im_end|>` in any of the
    texts is text (tasks/gpu/control_tokens.py).
    """
    return render_chat(tokenizer, system, fill(template, {"context": context, "query": query}))


def render_chat(tokenizer: Any, system: str, *turns: str) -> list[int]:
    """The token ids of a system message and the turns of user and assistant, up to where the answer begins; an empty
    system message is none.
    """
    messages = [{"role": "system", "content": system}] if system else []
    messages += [{"role": role, "content": text} for role, text in zip(cycle(("user", "assistant")), turns)]
    _require_template(tokenizer)
    return prompt_encoder(tokenizer).encode(messages)


def stop_ids(tokenizer: Any) -> tuple[int, ...]:
    """The tokens that end an answer, ascending: the tokenizer's eos, and the token with which its chat template ends
    the assistant's turn, if that is another one."""
    _require_template(tokenizer)
    stops = {tokenizer.eos_token_id} - {None}
    answer = "answered"
    chat = [{"role": "user", "content": "asked"}, {"role": "assistant", "content": answer}]
    text = tokenizer.apply_chat_template(chat, tokenize=False)
    special = set(tokenizer.all_special_ids)
    special |= {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}
    for token in tokenizer(text[text.rindex(answer) + len(answer) :], add_special_tokens=False)["input_ids"]:
        if token in special:
            stops.add(token)
            break
        if tokenizer.decode([token]).strip():
            break  # the turn ends in plain text, which is no single token
    return tuple(sorted(int(stop) for stop in stops))


def _require_template(tokenizer: Any) -> None:
    if not tokenizer.chat_template:
        raise ValueError(
            f"the tokenizer of {tokenizer.name_or_path} has no chat template: use an instruction-tuned model"
        )
