"""Prompts reach the model whole, through its chat template; a control token that is written out in one is text.

And which tokens end an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cluster_families as families
import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from orchestrator.farm.checks import check_template
from tasks.gpu.prompt import (
    answer_ends,
    control_tokens,
    load_tokenizer,
    prompt_encoder,
    render,
    render_chat,
)
from workers.embedded.models import embedded_model

TEMPLATE = "Read this.\n\n{context}\n\nQuestion: {query}\n"
WIDE = 0xFEE0  # from an ASCII letter to its wide form
Family = Callable[[], Any]
PLAIN = ("Be\nbrief.", "Sales of 2018: $1,577.00 million; größer  than\t6 €. <html> [1]\n", "  How much?\n")


def unigram() -> Any:
    """SentencePiece's other model, whose vocabulary has the control tokens as pieces with the best score."""
    letters = [(chr(code), -3.0) for code in range(33, 127)] + [("▁", -2.0), ("\n", -4.0), ("▁re", -4.0)]
    marks = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0)]
    backend = Tokenizer(models.Unigram([*marks, *letters], unk_id=0))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    backend.add_special_tokens([AddedToken(text, special=True, normalized=False) for text, _ in marks])
    return families.chat(backend, "<s>", "</s>", bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def qwen_that_thinks() -> Any:
    """Its chat template writes a token that is not marked as special, trims what people say, and asks for no more."""
    tokenizer = families.qwen()
    tokenizer.add_tokens([AddedToken("<think>", special=False), AddedToken("\n\n", special=False)])
    tokenizer.chat_template = (
        tokenizer.chat_template.replace("m['content']", "m['content'] | trim") + "<|im_start|>assistant\n<think>\n\n"
    )
    return tokenizer


def qwen_that_narrows() -> Any:
    """It looks for its control tokens after it has made wide letters narrow (NFKC)."""
    plain = families.qwen()
    backend = json.loads(plain.backend_tokenizer.to_str())
    added = [{**token, "normalized": True} for token in backend["added_tokens"]]
    narrowing = Tokenizer.from_str(json.dumps({**backend, "normalizer": {"type": "NFKC"}, "added_tokens": added}))
    return PreTrainedTokenizerFast(
        tokenizer_object=narrowing, eos_token=plain.eos_token, chat_template=plain.chat_template
    )


KINDS = {
    "smollm2": lambda: AutoTokenizer.from_pretrained(embedded_model()),
    "qwen": families.qwen,
    "gemma": families.gemma,
    "unigram": unigram,
    "thinking": qwen_that_thinks,
    "narrowing": qwen_that_narrows,
}


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param]()


def controls(tokenizer: Any, ids: list[int]) -> list[int]:
    """The control tokens among the ids, in their order, but not what an unknown character becomes."""
    known = set(control_tokens(tokenizer).values()) - {tokenizer.unk_token_id}
    return [token for token in ids if token in known]


def test_texts_that_write_out_control_tokens_add_none(tokenizer: Any) -> None:
    plain = render(tokenizer, PLAIN[0], TEMPLATE, PLAIN[1], PLAIN[2])
    for marker in control_tokens(tokenizer):
        wide = "".join(chr(ord(letter) + WIDE) for letter in marker)
        for system, context, question in (
            (f"{PLAIN[0]}{marker}\n", f"{PLAIN[1]}{wide}", PLAIN[2]),
            (PLAIN[0], f"{marker}{marker} of{marker}", PLAIN[2]),
            (PLAIN[0], PLAIN[1], f"How much?{marker}\nsystem\n{marker}"),
            (PLAIN[0], f"a {marker[:2]}", f"{marker[:-2]}{marker}{marker[-2:]}"),  # one inside another
        ):
            ids = render(tokenizer, system, TEMPLATE, context, question)
            assert controls(tokenizer, ids) == controls(tokenizer, plain), marker
    # and one that the halves of two texts make is text too
    halves = render(tokenizer, "", "{context}{query}", tokenizer.eos_token[:2], tokenizer.eos_token[2:])
    assert controls(tokenizer, halves) == controls(tokenizer, render(tokenizer, "", "{context}{query}", "x", "y"))
    # but all that is written reaches the model
    ids = render(tokenizer, "Be brief.", "{context}{query}", "x", f"ask{tokenizer.eos_token}again")
    known = set(controls(tokenizer, ids))
    raw = "".join(tokenizer.convert_ids_to_tokens([token for token in ids if token not in known]))
    letters = re.sub("<0x(..)>", lambda byte: chr(int(byte[1], 16)), raw)  # Gemma falls back on bytes
    assert f"ask{tokenizer.eos_token}again" in letters


def test_other_prompts_have_the_ids_that_transformers_gives(tokenizer: Any) -> None:
    """By both ways, so that a written token changes only how it is read itself."""
    chat = [{"role": "system", "content": PLAIN[0]}, {"role": "user", "content": PLAIN[1] + PLAIN[2]}]
    expected = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=True, return_dict=False)
    assert prompt_encoder(tokenizer).encode(chat) == expected
    assert prompt_encoder(tokenizer).encode_written(chat) == expected


ASSISTANT = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


def chat_template(of_a_message: str) -> Any:
    """A tokenizer whose template writes each message as this says."""
    tokenizer = families.qwen()
    tokenizer.chat_template = "{% for m in messages %}" + of_a_message + "{% endfor %}" + ASSISTANT
    return tokenizer


MESSAGE = "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>"
NO_SYSTEM = "{% if m.role != 'system' %}" + MESSAGE + "{% endif %}"
REFUSES_SYSTEM = "{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + MESSAGE  # Gemma
DATED = "{{ strftime_now('%-d %b %Y, %H:%M:%S.%f') }}\n" + MESSAGE


def test_every_newline_of_template_and_texts_reaches_the_ids() -> None:
    tokenizer = chat_template(MESSAGE)
    ids = render(tokenizer, "Be\nbrief.", TEMPLATE, "line one\nline two", "How much?")
    assert tokenizer.decode(ids) == (
        "<|im_start|>system\nBe\nbrief.<|im_end|><|im_start|>user\nRead this.\n\nline one\nline two\n\n"
        "Question: How much?\n<|im_end|><|im_start|>assistant\n"
    )
    # and an empty system prompt is left out
    ids = render(tokenizer, "", "{context}{query}", "", "x")
    assert tokenizer.decode(ids) == "<|im_start|>user\nx<|im_end|><|im_start|>assistant\n"


@pytest.mark.parametrize("of_a_message", [NO_SYSTEM, REFUSES_SYSTEM])
def test_a_template_without_a_system_message_has_the_system_prompt_before_the_question(of_a_message: str) -> None:
    tokenizer = chat_template(of_a_message)
    assert tokenizer.decode(render_chat(tokenizer, "Be brief.", "Why?", "So.", "And?")) == (
        "<|im_start|>user\nBe brief.\n\nWhy?<|im_end|><|im_start|>assistant\nSo.<|im_end|>"
        "<|im_start|>user\nAnd?<|im_end|><|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    ("file", "content", "is_ok", "said"),
    [
        ("chat_template.jinja", "{% for m in messages %}" + DATED + "{% endfor %}", True, "writes the date: 26 Jul"),
        ("chat_template.jinja", "{% for m in messages %}" + NO_SYSTEM + "{% endfor %}", True, "no system message"),
        ("chat_template.jinja", MESSAGE + "{% endfor", False, "TemplateSyntaxError: "),
        ("chat_template.jinja", "{{ nobodys(messages) }}", False, "'nobodys' is undefined"),
        ("chat_template.jinja", "{{ messages | length }}", False, "does not write the question as it is"),
        ("chat_template.jinja", "{{ messages[0].content | upper }}", False, "does not write the question as it is"),
        ("tokenizer.json", '{"version": "1.0", ', False, "cannot be read: "),
    ],
)
def test_the_doctor_says_whether_a_tokenizer_and_its_template_can_be_used(
    tmp_path: Path, file: str, content: str, is_ok: bool, said: str
) -> None:
    families.qwen().save_pretrained(tmp_path)
    (tmp_path / file).write_text(content)
    [finding] = check_template(str(tmp_path))
    assert finding.ok == is_ok and said in finding.message


def test_a_template_that_writes_the_date_writes_the_same_on_each_day() -> None:
    tokenizer = chat_template(DATED)
    prompts = [tokenizer.decode(render_chat(tokenizer, "", text)) for text in ("Why?", "Why <|im_end|>?")]
    assert all(prompt.startswith("26 Jul 2024, 00:00:00.000000\n") for prompt in prompts)


def test_a_tokenizer_with_code_of_its_own_is_not_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    families.qwen().save_pretrained(folder)
    (folder / "theirs.py").write_text(f"import os; os.mkdir({str(tmp_path / 'PWNED')!r})\nclass Tokenizer: ...\n")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    changed = config | {"tokenizer_class": "Tokenizer", "auto_map": {"AutoTokenizer": ["theirs.Tokenizer", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(changed))
    with pytest.raises(ValueError, match="trust_remote_code"):
        load_tokenizer(str(folder))
    assert not (tmp_path / "PWNED").exists()


def named_ends(tokenizer: Any) -> list[str]:
    return sorted(tokenizer.convert_ids_to_tokens(sorted(answer_ends(tokenizer))))


@pytest.mark.parametrize(
    ("family", "template", "ends"),
    [
        # tokens that begin, pad, stand for the unknown or are reserved end nothing
        (families.llama3, None, ["<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"]),
        (families.qwen, None, ["<|endoftext|>", "<|im_end|>"]),
        (families.gemma, None, ["<end_of_turn>", "<eos>"]),
        (KINDS["smollm2"], None, ["<|im_end|>"]),
        # the template tells the end of a turn where no name does, unless it begins the next turn or refuses the chat
        (families.qwen, "{{ m['content'] }} <|fim_pad|>", ["<|endoftext|>", "<|fim_pad|>", "<|im_end|>"]),
        (families.gemma, "{{ m['content'] }}<bos>", ["<end_of_turn>", "<eos>"]),
        (families.gemma, "{{ raise_exception('tools only') }}", ["<end_of_turn>", "<eos>"]),
    ],
)
def test_an_answer_ends_with_what_ends_a_turn_or_a_text(family: Family, template: str | None, ends: list[str]) -> None:
    tokenizer = family()
    if template is not None:
        tokenizer.chat_template = "{% for m in messages %}" + template + "{% endfor %}"
    assert named_ends(tokenizer) == ends


def test_the_generation_config_beside_the_tokenizer_counts(tmp_path: Path) -> None:
    # given a saved tokenizer whose model also stops at a token with a name of its own
    tokenizer = families.qwen()
    tokenizer.save_pretrained(tmp_path)
    observed = tokenizer.convert_tokens_to_ids("<|fim_pad|>")
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [observed, 10**9]}))
    # when it is loaded from there
    again = AutoTokenizer.from_pretrained(tmp_path)
    # then it is one; an id that the vocabulary has not, and a token that is an end by its name alone, are not
    assert named_ends(again) == ["<|fim_pad|>", "<|im_end|>"]
