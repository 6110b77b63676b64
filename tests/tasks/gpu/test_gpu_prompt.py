"""Prompts reach the model through its chat template, whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast

from orchestrator.farm.checks import check_template
from tasks.gpu.prompt import answer_ends, load_tokenizer, render, render_chat, takes_system

TEMPLATE = "Read this.\n\n{context}\n\nQuestion: {query}\n"


def _tokenizer(turn_end: str, eos: str, template_end: str | None = None) -> Any:
    """A byte-level tokenizer whose chat template ends each turn as told."""
    alphabet = sorted(ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    special = sorted({eos, turn_end, "<|user|>", "<|assistant|>", "<|system|>"})
    backend.decoder = ByteLevelDecoder()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=eos)
    tokenizer.add_special_tokens({"additional_special_tokens": special})
    end = turn_end if template_end is None else template_end
    tokenizer.chat_template = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}" + end + "{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    return tokenizer


def _text(tokenizer: Any, ids: list[int]) -> str:
    raw = "".join(tokenizer.convert_ids_to_tokens(ids))
    letters = {letter: byte for byte, letter in _bytes_to_letters().items()}
    return "".join(chr(letters[letter]) if letter in letters else letter for letter in raw)


def _bytes_to_letters() -> dict[int, str]:
    """What the byte-level alphabet writes for a newline and a space."""
    return {10: "Ċ", 32: "Ġ"}


def test_every_newline_of_the_template_reaches_the_ids() -> None:
    tokenizer = _tokenizer("<end>", "<end>")
    ids = render(tokenizer, "Be\nbrief.", TEMPLATE, "line one\nline two", "How much?")
    assert _text(tokenizer, ids) == (
        "<|system|>Be\nbrief.<end><|user|>Read this.\n\nline one\nline two\n\nQuestion: How much?\n<end><|assistant|>"
    )
    assert tokenizer.convert_ids_to_tokens(ids).count("Ċ") == 7


def test_an_empty_system_prompt_is_left_out() -> None:
    tokenizer = _tokenizer("<end>", "<end>")
    assert _text(tokenizer, render(tokenizer, "", "{context}{query}", "", "x")) == "<|user|>x<end><|assistant|>"


def test_a_dedicated_end_of_turn_token_stops_an_answer_beside_the_eos() -> None:
    tokenizer = _tokenizer("<|eot|>", "<|endoftext|>")
    both = {tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("<|eot|>")}
    assert len(both) == 2 and answer_ends(tokenizer) == both


def test_a_tokenizer_with_code_of_its_own_is_not_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    _tokenizer("<end>", "<end>").save_pretrained(folder)
    (folder / "theirs.py").write_text(f"import os; os.mkdir({str(tmp_path / 'PWNED')!r})\nclass Tokenizer: ...\n")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    changed = config | {"tokenizer_class": "Tokenizer", "auto_map": {"AutoTokenizer": ["theirs.Tokenizer", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(changed))
    with pytest.raises(ValueError, match="trust_remote_code"):
        load_tokenizer(str(folder))
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize("refuses", [True, False])
def test_a_template_without_a_system_message_has_the_system_prompt_before_the_question(
    refuses: bool, tmp_path: Path
) -> None:
    # Given Gemma's template, which refuses a system message, and one that leaves it out
    tokenizer = _tokenizer("<end>", "<end>")
    without = "{{ raise_exception('System role not supported') }}" if refuses else ""
    tokenizer.chat_template = tokenizer.chat_template.replace(
        "<|{{ m.role }}|>{{ m.content }}<end>",
        "{% if m.role == 'system' %}" + without + "{% else %}<|{{ m.role }}|>{{ m.content }}<end>{% endif %}",
    )
    # Then nothing of it is lost
    assert not takes_system(tokenizer)
    assert _text(tokenizer, render_chat(tokenizer, "Be brief.", "Why?", "So.", "And?")) == (
        "<|user|>Be brief.\n\nWhy?<end><|assistant|>So.<end><|user|>And?<end><|assistant|>"
    )
    assert _text(tokenizer, render_chat(tokenizer, "", "Why?")) == "<|user|>Why?<end><|assistant|>"
    # And `orchestrator doctor` says so
    tokenizer.save_pretrained(tmp_path)
    [finding] = check_template(str(tmp_path))
    assert finding.ok and "no system message" in finding.message


def test_a_template_that_leaves_out_a_question_is_refused() -> None:
    tokenizer = _tokenizer("<end>", "<end>")
    tokenizer.chat_template = (
        "{% for m in messages %}<|user|>{% for part in m.content %}{% if part['type'] == 'text' %}{{ part['text'] }}"
        "{% endif %}{% endfor %}<end>{% endfor %}"
    )
    with pytest.raises(ValueError, match="leaves a question out"):
        render_chat(tokenizer, "", "x")
