"""How the next token of a request is chosen: what steers it, what its grammar allows, and its own random generator.

Requests are steered by their deltas, or by a generated processor file: the class that SGLang would import.  An answer
that is to match a regular expression or a JSON schema may have only tokens that lead there; llguidance tells which.
"""

from __future__ import annotations

import hashlib
import importlib.util
import secrets
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from workers.steering.batch import biases
from workers.steering.request import OPEN, Steering

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

GREEDY_BELOW = 1e-6  # temperature, as in SGLang

Steer = Callable[[torch.Tensor, Sequence[int]], torch.Tensor]
"""From the logits [vocabulary] behind the tokens of an answer to those that are steered."""


def steer_by_deltas(steering: Steering, vocabulary: int) -> Steer:
    """Adds deltas[labels]; cluster 0 has its delta only where the answer may end (`Steering.state`)."""
    labels = torch.zeros(1, vocabulary, dtype=torch.int64)
    labels[0, : len(steering.labels)] = torch.from_numpy(steering.labels.astype("int64") + 1)
    deltas = torch.tensor([[0.0, *steering.deltas.tolist()]])
    added = {state: biases(deltas, torch.tensor([state], dtype=torch.int8), labels)[0] for state in (0, OPEN)}
    return lambda logits, answer: logits + added[steering.state(answer) & OPEN]


class Sampler:
    """Chooses tokens for one request. Greedy takes the highest logit, ties to the lowest id, and never draws."""

    def __init__(self, temperature: float, top_p: float, seed: int | None) -> None:
        self._temperature, self._top_p = temperature, top_p
        self._generator = torch.Generator().manual_seed(secrets.randbits(63) if seed is None else seed)

    def choose(self, logits: torch.Tensor) -> int:
        """The next token. logits [vocabulary] float32."""
        if self._temperature < GREEDY_BELOW:
            # Equal logits are common in bfloat16; on a CPU argmax gives the first of them.
            return int(logits.argmax())
        if self._top_p == 1.0:
            return int(torch.multinomial(torch.softmax(logits / self._temperature, -1), 1, generator=self._generator))
        ordered, ids = torch.sort(logits / self._temperature, descending=True, stable=True)  # ties to the lowest id
        probabilities = torch.softmax(ordered, -1)
        # A token stays while those before it do not reach top_p together, so the first always stays.
        probabilities[probabilities.cumsum(-1) - probabilities >= self._top_p] = 0
        return int(ids[torch.multinomial(probabilities, 1, generator=self._generator)])


_MORE = 4  # tokens before the longest stop text: the first may begin inside a character, or lose a space


def find_stop_text(texts: Sequence[str], produced: Sequence[int], decode: Callable[[Sequence[int]], str]) -> str | None:
    """The first of the texts that the answer now has.  `decode` gives the text of ids, control tokens included."""
    if not texts:
        return None
    # A token has at least one byte, so a stop text is within as many tokens as it has bytes.
    window = max(len(text.encode("utf-8", "surrogatepass")) for text in texts) + _MORE
    tail = decode(produced[-window:])
    return next((text for text in texts if text in tail), None)


FILE_CLASS = "DeltaProcessor"  # of a generated processor file, whose module has the file's name
BASE_MODULE, BASE_CLASS = "sglang.srt.sampling.custom_logit_processor", "CustomLogitProcessor"


@dataclass(frozen=True)
class ProcessorFile:
    """A loaded processor; `steer` takes logits [rows, vocabulary] and the custom_params of each row."""

    sha256: str
    module: str
    steer: Callable[[torch.Tensor, list[dict[str, Any] | None]], torch.Tensor]

    def steer_row(self, logits: torch.Tensor, params: dict[str, Any] | None, answer: Sequence[int]) -> torch.Tensor:
        """Of one request, [vocabulary].  As in SGLang, only a request with parameters shows its answer to the file."""
        if params is not None:
            params = {**params, "__req__": SimpleNamespace(output_ids=answer)}
        return self.steer(logits[None], [params])[0]


def load_processor(path: Path) -> ProcessorFile:
    """Import the file at `path` and make its class.  It runs the file's code, so it must come from this worker."""
    if importlib.util.find_spec("sglang") is None:  # the file imports its base class
        parts = BASE_MODULE.split(".")
        for name in (".".join(parts[:depth]) for depth in range(1, len(parts) + 1)):
            sys.modules.setdefault(name, ModuleType(name))
        setattr(sys.modules[BASE_MODULE], BASE_CLASS, object)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return ProcessorFile(hashlib.sha256(path.read_bytes()).hexdigest(), path.stem, getattr(module, FILE_CLASS)())


GrammarKind = Literal["regex", "json_schema"]
KEPT = 64  # compiled grammars; the least recently used are dropped
LONGEST_REASON = 300  # characters of what an error tells the client
NOT_ALLOWED = float("-inf")


class BadRequest(ValueError):
    """The request cannot be served; the message is for the client."""


class Constraint:
    """A grammar, as far as an answer has come; a compiled one is at its beginning."""

    def __init__(self, matcher: LLMatcher, vocabulary: int) -> None:
        self._matcher, self._vocabulary = matcher, vocabulary

    def start(self) -> Constraint:
        """For one more answer."""
        return Constraint(self._matcher.deep_copy(), self._vocabulary)

    def mask(self, logits: torch.Tensor) -> torch.Tensor:
        """The logits [vocabulary] with -inf for each token that may not come next."""
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
            raise BadRequest(f"the grammar cannot be followed: {_shortened(self._matcher.get_error())}")


class Grammars:
    """Compiles grammars for one tokenizer of transformers, for several threads; builds nothing before the first."""

    def __init__(self, tokenizer: Any, vocabulary: int, eos: Collection[int]) -> None:
        self._tokenizer, self._vocabulary, self._eos = tokenizer, vocabulary, sorted(eos)
        self._compiled = lru_cache(KEPT)(self._compile)
        self._lock = threading.Lock()

    def compile(self, kind: GrammarKind, text: str) -> Constraint:
        with self._lock:
            return self._compiled(kind, text)

    @cached_property
    def _for_llguidance(self) -> LLTokenizer:
        from llguidance import LLTokenizer

        about = self._tokenizer.backend_tokenizer.to_str()
        return LLTokenizer(about, n_vocab=self._vocabulary, eos_token=self._eos or None)

    def _compile(self, kind: GrammarKind, text: str) -> Constraint:
        from llguidance import LLMatcher

        try:
            if kind == "regex":
                grammar = LLMatcher.grammar_from_regex(text)
            else:
                grammar = LLMatcher.grammar_from_json_schema(text, defaults={"whitespace_flexible": False})
        except ValueError as error:
            raise BadRequest(f"{kind}: {_shortened(str(error))}") from None
        matcher = LLMatcher(self._for_llguidance, grammar, log_level=0)
        if matcher.is_error():
            raise BadRequest(f"{kind}: {_shortened(matcher.get_error())}")
        compiled = Constraint(matcher, self._vocabulary)
        compiled.start().mask(torch.zeros(self._vocabulary))  # a grammar that nothing matches is an error here
        return compiled


def _shortened(message: str) -> str:
    return " ".join(message.split())[:LONGEST_REASON]
