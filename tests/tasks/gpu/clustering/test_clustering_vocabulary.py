"""Clusters 0 and 1 hold exactly the tokens that their rules name, for tokenizers of several families, and which tokens
end a sentence."""

from __future__ import annotations

from collections.abc import Callable

import cluster_families as families
import pytest
from transformers import PreTrainedTokenizerBase

from tasks.gpu.clustering.vocabulary import (
    DIGIT,
    ENDS,
    UNLESS_DIGIT,
    classify_tokens,
    decode_vocabulary,
    is_number_token,
    sentence_ends,
    token_class,
)
from tasks.gpu.prompt import answer_ends, load_tokenizer, vocabulary_size
from workers.embedded.models import embedded_model
from workers.steering.request import OPEN, next_state

SINGLE = "$ % * + - / = Â£ 0 1 2 3 4 5 6 7 8 9 Ġ$ Ġ% Ġ* Ġ+ Ġ- Ġ/ Ġ= ĠÂ£"
LLAMA3 = f"{SINGLE} 00 10 11 12 13 14 15 16 17 18 19 20 42 57 100 200 201 215 300 400 577"
GEMMA = """
    <0x24> <0x25> <0x2A> <0x2B> <0x2D> <0x2F> <0x30> <0x31> <0x32> <0x33> <0x34> <0x35> <0x36> <0x37> <0x38> <0x39>
    <0x3D>
    $ % * + - / = £ € 0 1 2 3 4 5 6 7 8 9 ▁1 00 ▁% ▁2 ▁- ▁/ ▁12 ▁20 1, 7. 8, ▁$ ▁4 ▁= ▁10 ▁17 ▁100 ▁200 ▁201 .2 .5 15
    215 3, 300 3.2 4, 5, 57 6, 9, £5 ▁* ▁+ ▁6 ▁9 ▁7. ▁300 ▁£5 ▁11 ▁11, ▁18, ▁1.5 ▁13, ▁14, ▁15, ▁16, ▁19, ▁-3.2 ▁12,
    ▁20, 1,57 7.00 ▁$215 ▁$1,57 ▁42 ▁400 ▁10, ▁17, ▁100, ▁200, ▁200. ▁2018,
"""
Family = Callable[[], PreTrainedTokenizerBase]


def named(tokenizer: PreTrainedTokenizerBase, ids: frozenset[int]) -> list[str]:
    return sorted(tokenizer.convert_ids_to_tokens(sorted(ids)))


@pytest.mark.parametrize(
    ("family", "numbers"),
    [
        (families.llama3, LLAMA3),
        (families.qwen, SINGLE),
        (families.gemma, GEMMA),
        (lambda: load_tokenizer(str(embedded_model())), f"{SINGLE} Â¢ Â± ÃĹ âĤ¬ âĪĴ ĠÂ± ĠÃĹ ĠâĤ¬ ĠâĪĴ"),
    ],
    ids=["llama3", "qwen", "gemma", "smollm2"],
)
def test_cluster_0_is_what_ends_an_answer_and_cluster_1_digits_and_arithmetic_symbols(
    family: Family, numbers: str
) -> None:
    tokenizer = family()
    found = classify_tokens(tokenizer)
    assert found.ends == answer_ends(tokenizer)
    assert named(tokenizer, found.numbers) == sorted(numbers.split())


def test_which_texts_are_numbers() -> None:
    numbers = ("7", " 42", "$1", " -3.2", "1,577.00", "10%", ".5", "7.", "12,", "+", " ÷ ", "٣", "1/2")
    others = ("", " ", ".", "..", "**", "--", "+=", "1st", "Q4", "1..", "...5", "1\n", "=\n", "²", "½", "(1)", "1:2")
    assert [text for text in (*numbers, *others) if is_number_token(text)] == [*numbers]


@pytest.mark.parametrize("family", [families.llama3, families.qwen, families.gemma])
def test_tokens_decode_as_they_stand_in_a_text(family: Family) -> None:
    tokenizer = family()
    texts = decode_vocabulary(tokenizer)
    sentence = "a company revenue of $1,577.00 = 42 % of income"
    assert "".join(texts[i] for i in tokenizer.encode(sentence, add_special_tokens=False)) == sentence
    # every id has a text, those of tokens added above the vocabulary included
    assert len(texts) == len(tokenizer) == vocabulary_size(tokenizer)


def test_of_each_text_in_tokens_of_the_model_it_is_known_whether_it_ends_a_sentence() -> None:
    tokenizer, classes = load_tokenizer(str(embedded_model())), sentence_ends(str(embedded_model()))
    assert len(classes) == len(tokenizer)
    texts = {
        "It grew.": True, "It grew. ": False, "It grew": False, "It grew!": True, "Did it?": True, "It grew...": True,
        "It was 2.": False, "It was 2.6": False, "It was 2.6.": False, "It was 2.6 %.": True, "(It grew.)": True,
        "It grew,": False, "": False,
    }  # fmt: skip
    for text, expected in texts.items():
        state = 0
        for token in tokenizer(text, add_special_tokens=False)["input_ids"]:
            state = next_state(state, int(classes[token]))
        assert bool(state & OPEN) == expected, text
    # Some hundred tokens of 49,152 end a sentence, and no token that ends a turn does
    assert 20 < (classes & (ENDS | UNLESS_DIGIT) != 0).sum() < 1000
    assert classes[tokenizer.eos_token_id] == 0


def test_the_class_of_a_text() -> None:
    classes = {
        ".": UNLESS_DIGIT, ".)": UNLESS_DIGIT, '."\n': UNLESS_DIGIT, " .": ENDS, "a.": ENDS, "2.": 0, "2.)": 0,
        "...": ENDS, "!": ENDS, "?\"": ENDS, "。": ENDS, "。」": ENDS, "؟": ENDS, "।": ENDS, "…": 0, ":": 0,
        ";": 0, ")": 0, "\n": 0, "": 0, "7": DIGIT, "$3.5": DIGIT, "٣": DIGIT, "²": 0, "<|im_end|>": 0, "3!": ENDS,
    }  # fmt: skip
    assert {text: token_class(text) for text in classes} == classes
