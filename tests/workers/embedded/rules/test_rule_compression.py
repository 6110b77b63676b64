"""The rule compressor: one sentence of the answer, and nothing that the answer does not say."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tasks.collect.collection import Compression, compression_messages
from tasks.common.validation import check_value
from workers.embedded.rules import RULES

CONFIG = Path(__file__).parents[4] / "configs" / "collect.yaml"
TEMPLATE = yaml.safe_load(CONFIG.read_text())["reflector"]["compress_prompt_template"]


def compress(question: str, said: str) -> str:
    found: Compression = check_value(Compression, RULES["compression"](*compression_messages(TEMPLATE, question, said)))
    return found.rewritten_answer


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
