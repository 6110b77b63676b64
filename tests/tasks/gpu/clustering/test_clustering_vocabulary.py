"""Clusters 0 and 1 hold exactly the tokens that their rules name, for tokenizers of several families, and which tokens
end a sentence."""

from __future__ import annotations

import re
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
from tasks.gpu.prompt import answer_ends, load_tokenizer
from workers.embedded.models import embedded_model
from workers.steering.request import OPEN, next_state

SYMBOLS = r"$%*+\-/=¢£¥±×÷€−"
NUMBER = re.compile(rf" ?([{SYMBOLS}]|[{SYMBOLS}.,]*\d[{SYMBOLS}.,\d]*)")
Family = Callable[[], PreTrainedTokenizerBase]


def embedded() -> PreTrainedTokenizerBase:
    return load_tokenizer(str(embedded_model()))


@pytest.mark.parametrize(
    ("family", "count"),
    [(families.llama3, 47), (families.qwen, 26), (families.gemma, 99), (embedded, 35)],
)
def test_cluster_0_is_what_ends_an_answer_and_cluster_1_digits_and_arithmetic_symbols(
    family: Family, count: int
) -> None:
    tokenizer = family()
    found = classify_tokens(tokenizer)
    assert found.ends == answer_ends(tokenizer)
    numbers = {i for i, text in enumerate(decode_vocabulary(tokenizer)) if NUMBER.fullmatch(text)}
    assert found.numbers == numbers and len(numbers) == count


def test_which_texts_are_numbers() -> None:
    numbers = ("7", " 42", "$1", " -3.2", "1,577.00", "10%", ".5", "7.", "12,", "+", " ÷ ", "٣", "1/2")
    others = ("", " ", ".", "..", "**", "--", "+=", "1st", "Q4", "1..", "...5", "1\n", "=\n", "²", "½", "(1)", "1:2")
    assert [text for text in (*numbers, *others) if is_number_token(text)] == [*numbers]


def test_of_each_text_in_tokens_of_the_model_it_is_known_whether_it_ends_a_sentence() -> None:
    tokenizer, classes = embedded(), sentence_ends(str(embedded_model()))
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
