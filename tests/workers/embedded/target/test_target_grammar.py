"""A grammar allows exactly the tokens that lead to a text that it matches, and costs a bounded amount of work."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from workers.embedded.models import embedded_model
from workers.embedded.target.grammar import LONGEST_GRAMMAR, CompiledGrammar, GrammarRefused, Grammars

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


def drawn(grammar: CompiledGrammar, seed: int, most: int = 200) -> list[int]:
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


def test_an_answer_may_end_only_where_the_grammar_may(grammars: Grammars, tokenizer: Any) -> None:
    constraint = grammars.compile("regex", "(ab)+").start()
    allowed = constraint.mask(torch.zeros(VOCABULARY))
    assert not torch.isfinite(allowed[END])
    assert {tokenizer.decode([int(i)]) for i in torch.isfinite(allowed).nonzero()} >= {"a", "ab"}
    [both] = tokenizer("ab", add_special_tokens=False)["input_ids"]
    assert not constraint.accept(both)
    assert torch.isfinite(constraint.mask(torch.zeros(VOCABULARY))[END])
    assert constraint.accept(END)


def test_the_logits_of_allowed_tokens_are_not_changed(grammars: Grammars) -> None:
    logits = torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(1))
    masked = grammars.compile("regex", "[a-z ]{1,40}").start().mask(logits)
    allowed = torch.isfinite(masked)
    assert 100 < int(allowed.sum()) < VOCABULARY and torch.equal(masked[allowed], logits[allowed])


def test_answers_with_one_grammar_do_not_disturb_each_other(grammars: Grammars) -> None:
    """Given one compiled grammar, then each answer begins at its beginning, also when it was compiled elsewhere."""
    with ThreadPoolExecutor(1) as pool:
        grammar = pool.submit(grammars.compile, "regex", "[ab]{3}c").result()
    assert drawn(grammar, 1) == drawn(grammar, 1) != drawn(grammar, 2)
    assert grammars.compile("regex", "[ab]{3}c") is grammar


@pytest.mark.parametrize(
    ("kind", "grammar", "said"),
    [
        ("regex", "(", "unclosed group"),
        ("regex", "[z-a]", "invalid character class"),
        ("regex", "(?=a)b", "look-around"),
        ("regex", "a" * (LONGEST_GRAMMAR + 1), "at most 65,536"),
        ("regex", "(" * 9000 + ")" * 9000, "regex"),
        ("json_schema", "{", "not JSON"),
        ("json_schema", "[" * 60_000, "not JSON"),
        ("json_schema", "[]", "not a JSON object"),
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


@pytest.mark.parametrize(
    "regex",
    [
        "((a{1,1000}){1,1000}){1,1000}",
        "(.*a){30}",
        "(a|b|ab)*c{1,60000}",
        "(a?){2000}a{2000}",
        "|".join(f"{i * 7919:x}" for i in range(9000)),
        r"(\p{L}{1,500} ){1,500}",
    ],
)
def test_a_hostile_grammar_costs_a_second_at_most_in_each_step(grammars: Grammars, regex: str) -> None:
    """It is refused, or it answers: either way other requests go on."""
    began = time.thread_time()
    try:
        constraint = grammars.compile("regex", regex).start()
        for _ in range(5):
            allowed = torch.isfinite(constraint.mask(torch.zeros(VOCABULARY))).nonzero()
            constraint.accept(int(allowed[-1]))
    except GrammarRefused:
        pass
    assert time.thread_time() - began < 5


def test_a_tokenizer_that_llguidance_cannot_read_is_named() -> None:
    with pytest.raises(GrammarRefused, match="tokenizers library"):
        Grammars(object(), VOCABULARY, {END}).compile("regex", "a")
