"""The classes of a real tokenizer's tokens: those that end a sentence, and a point behind a digit, which does not."""

from __future__ import annotations

from tasks.gpu.clustering.vocabulary import DIGIT, ENDS, UNLESS_DIGIT, sentence_ends, token_class
from tasks.gpu.prompt import load_tokenizer
from workers.embedded.models import embedded_model
from workers.steering.request import OPEN, next_state


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
