"""A grammar allows exactly the tokens that lead to a text that it matches, and costs a bounded amount of work."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from workers.embedded.models import embedded_model
from workers.embedded.target.sampling import Constraint, GrammarRefused, Grammars

VOCABULARY, END = 49152, 2
THREE_LINES = r"Verdict: (通过|不通过|pass|fail)\nReason: [A-Za-z][ -~一-鿿]{0,30}\nConfidence: (0\.[0-9][0-9]|1\.00)"
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"op": {"enum": ["upsert", "remove"]}, "key": {"type": ["string", "null"], "maxLength": 12}},
        "required": ["op", "key"],
        "additionalProperties": False,
    }
)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(embedded_model(), local_files_only=True)


@pytest.fixture(scope="module")
def grammars(tokenizer: Any) -> Grammars:
    return Grammars(tokenizer, VOCABULARY, {END})


def drawn(grammar: Constraint, seed: int, most: int = 200) -> list[int]:
    """A random answer: each token any of the allowed ones."""
    generator = torch.Generator().manual_seed(seed)
    constraint, ids = grammar.start(), []
    while len(ids) < most:
        allowed = torch.isfinite(constraint.mask(torch.zeros(VOCABULARY))).float()
        ids.append(int(torch.multinomial(allowed, 1, generator=generator)))
        if constraint.accept(ids[-1]):
            break
    return ids


@pytest.mark.parametrize(
    ("kind", "grammar", "matches"),
    [
        ("regex", THREE_LINES, lambda text: re.fullmatch(THREE_LINES, text)),
        ("json_schema", SCHEMA, lambda text: set(json.loads(text)) == {"op", "key"}),
    ],
)
def test_a_model_that_chooses_at_random_keeps_the_form(
    grammars: Grammars, tokenizer: Any, kind: Any, grammar: str, matches: Callable[[str], object]
) -> None:
    for seed in range(4):
        ids = drawn(grammars.compile(kind, grammar), seed)
        assert ids[-1] == END and matches(tokenizer.decode(ids[:-1]))


@pytest.mark.parametrize(
    ("kind", "grammar", "said"),
    [
        ("regex", "(", "unclosed group"),
        ("regex", "[z-a]", "invalid character class"),
        ("regex", "(?=a)b", "look-around"),
        ("json_schema", '{"type": "nonsense"}', "nonsense"),
        ("json_schema", '{"$ref": "http://127.0.0.1:9/schema"}', "does not fetch"),
        ("json_schema", '{"enum": []}', "Unsatisfiable"),
        ("json_schema", '{"$ref": "#"}', "cannot be followed"),
    ],
)
def test_a_grammar_that_cannot_be_used_is_refused_with_a_reason(
    grammars: Grammars, kind: Any, grammar: str, said: str
) -> None:
    with pytest.raises(GrammarRefused, match=re.escape(said)) as refused:
        grammars.compile(kind, grammar)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 400
