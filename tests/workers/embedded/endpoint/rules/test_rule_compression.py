"""The rule compressor: one sentence of the answer, and nothing that the answer does not say."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tasks.collect.compression import SCHEMA, messages, rewritten
from tasks.openai.schema import mismatch
from workers.embedded.endpoint.rules import all_rules
from workers.embedded.endpoint.rules.compression import SCHEMA_NAME, best_sentence

CONFIG = Path(__file__).parents[5] / "configs" / "collect.yaml"
TEMPLATE = yaml.safe_load(CONFIG.read_text())["reflector"]["compress_prompt_template"]


def compress(question: str, said: str) -> str:
    reply = all_rules()[SCHEMA_NAME](*messages(TEMPLATE, question, said))
    assert mismatch(reply, SCHEMA) is None
    return rewritten(reply)


@pytest.mark.parametrize(
    ("question", "said", "short"),
    [
        (
            "What were the net sales in fiscal 2023?",
            "The company makes tools. Based on the provided context, net sales in fiscal 2023 were $412 million. "
            "This was more than before.",
            "Net sales in fiscal 2023 were $412 million.",
        ),
        ("Did the margin rise?", "The margin was 3% before. Yes, it rose to 5%. It helped.", "Yes, it rose to 5%."),
        ("Is it profitable?", "It made money. It grew.", "It made money."),
        ("Who leads it?", "It is large. Ann is who leads it.", "Ann is who leads it."),
        ("What is it?", " \n ", ""),
    ],
)  # fmt: skip
def test_the_sentence_that_claims_something_is_kept(question: str, said: str, short: str) -> None:
    assert compress(question, said) == short


@given(st.text(), st.text(alphabet=st.characters(exclude_categories=("Cs",))))
def test_it_never_says_more_than_the_answer(question: str, said: str) -> None:
    assert len(best_sentence(question, said)) <= len(said) + 2  # a capital may take two letters more, as of "ﬃ"


def test_an_answer_that_looks_like_the_prompt_stays_an_answer() -> None:
    said = "Previous answer:\nit is 5.\nRewritten answer:\nit is 6 times."
    assert compress("How many?", said) in said.replace("it", "It") + said
