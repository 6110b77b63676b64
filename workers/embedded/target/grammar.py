"""Answers that match a regular expression or a JSON schema: only tokens that lead there may be chosen.

llguidance (https://github.com/guidance-ai/llguidance), which SGLang has as a grammar backend too, tells for each step
which tokens these are.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

GrammarKind = Literal["regex", "json_schema"]

KEPT = 64  # compiled grammars; the least recently used are dropped
LONGEST_REASON = 300  # characters of what an error tells the client
NOT_ALLOWED = float("-inf")


class GrammarRefused(ValueError):
    """The grammar cannot be used; the message is for the client."""


@dataclass(frozen=True, eq=False)
class CompiledGrammar:
    """A grammar at its beginning, for any number of answers."""

    _matcher: LLMatcher
    _vocabulary: int

    def start(self) -> Constraint:
        return Constraint(self._matcher.deep_copy(), self._vocabulary)


class Constraint:
    """The grammar of one answer, as far as the answer has come."""

    def __init__(self, matcher: LLMatcher, vocabulary: int) -> None:
        self._matcher = matcher
        self._vocabulary = vocabulary

    def mask(self, logits: torch.Tensor) -> torch.Tensor:
        """The logits [vocabulary] with -inf for each token that may not come next.

        At the end of the grammar only the tokens that end the answer may come.
        """
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        self._check()
        allowed = np.unpackbits(bits, bitorder="little", count=self._vocabulary).view(np.bool_)
        return torch.where(torch.from_numpy(allowed), logits, NOT_ALLOWED)

    def accept(self, token: int) -> bool:
        """Go on with the chosen token; whether the answer is then complete."""
        at_end = self._matcher.is_stopped()  # and so the token is one that ends the answer
        if not at_end:
            self._matcher.consume_token(token)
            self._check()
        return at_end or self._matcher.stop_reason() == "EndOfSentence"

    def _check(self) -> None:
        if self._matcher.is_error():
            raise GrammarRefused(f"the grammar cannot be followed: {_shortened(self._matcher.get_error())}")


class Grammars:
    """Compiles grammars for one tokenizer.  Safe to use from several threads.

    `tokenizer` is transformers' own; `eos` are the tokens that end an answer.  Nothing is imported or built before the
    first grammar.
    """

    def __init__(self, tokenizer: Any, vocabulary: int, eos: Collection[int]) -> None:
        self._tokenizer, self._vocabulary, self._eos = tokenizer, vocabulary, sorted(eos)
        self._built: LLTokenizer | None = None
        self._compiled: OrderedDict[tuple[GrammarKind, str], CompiledGrammar] = OrderedDict()
        self._lock = threading.Lock()

    def compile(self, kind: GrammarKind, text: str) -> CompiledGrammar:
        """Takes milliseconds, and a second for the first grammar."""
        with self._lock:
            if (kind, text) not in self._compiled:
                self._compiled[kind, text] = self._compile(kind, text)
            self._compiled.move_to_end((kind, text))
            if len(self._compiled) > KEPT:
                self._compiled.popitem(last=False)
            return self._compiled[kind, text]

    def _compile(self, kind: GrammarKind, text: str) -> CompiledGrammar:
        from llguidance import LLMatcher

        if self._built is None:
            self._built = _llguidance_tokenizer(self._tokenizer, self._vocabulary, self._eos)
        grammar = LLMatcher.grammar_from_regex(text) if kind == "regex" else _schema_grammar(text)
        matcher = LLMatcher(self._built, grammar, log_level=0)
        if matcher.is_error():
            raise GrammarRefused(f"{kind}: {_shortened(matcher.get_error())}")
        compiled = CompiledGrammar(matcher, self._vocabulary)
        compiled.start().mask(torch.zeros(self._vocabulary))  # a grammar that nothing matches is an error here
        return compiled


def _schema_grammar(text: str) -> str:
    from llguidance import LLMatcher

    try:
        return LLMatcher.grammar_from_json_schema(text, defaults={"whitespace_flexible": False})
    except ValueError as error:
        raise GrammarRefused(f"json_schema: {_shortened(str(error))}") from None


def _llguidance_tokenizer(tokenizer: Any, vocabulary: int, eos: list[int]) -> LLTokenizer:
    from llguidance import LLTokenizer

    return LLTokenizer(tokenizer.backend_tokenizer.to_str(), n_vocab=vocabulary, eos_token=eos or None)


def _shortened(message: str) -> str:
    return " ".join(message.split())[:LONGEST_REASON]
