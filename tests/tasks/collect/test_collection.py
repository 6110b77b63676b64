"""The keys of a collection's results: all that determines a result is part of its key, the server too."""

from __future__ import annotations

import dataclasses

from tasks.collect.collection import Collection
from tasks.records import Endpoint, Example, Judge, Reflector, Sampling, Target

EXAMPLE = Example("q1", "the pages", "why?", "so")
ENDPOINT = Endpoint("https://api.example.com/v1", "K", 1, 1, 0, 0, 0, 0, 0, 0)
SERVER = {"engine": "sglang", "version": "0.5.20", "model_path": "some/model", "dtype": "bfloat16", "quantization": ""}
COLLECTION = Collection(
    samples=2,
    target=Target("some/model", "sglang", "resident", "http://a:30000", "", "", "cuda", "auto", 1, 1, 1, "s",
                  "{context}{query}", Sampling(8, 0.7, 1.0, 5)),
    target_retries=1,
    reflector=Reflector("r", 0, 1, 16, 1),
    compress_template="{query}{prev_answer}",
    reflector_endpoint=ENDPOINT,
    judge=Judge("j", 0.01, True, 0, 1, 16, 1, 1),
    judge_endpoint=ENDPOINT,
    server=SERVER,
)  # fmt: skip


def keys(collection: Collection) -> dict[str, str]:
    return {
        "sample": collection.sample_key(EXAMPLE, 0),
        "tokenizer": collection.tokenizer_key(),
        "tokens": collection.tokens_key([(1, "text", "text")]),
        "verbose line": collection.verbose_fingerprint(EXAMPLE),
        "pairs line": collection.pairs_fingerprint(EXAMPLE),
        "compression": collection.compression_key(EXAMPLE, "verbose"),
        "verdict": collection.verdict_key(EXAMPLE, "short"),
    }


def test_another_server_has_other_keys_for_all_that_it_says() -> None:
    """Given a server of other arguments, version or weights, no answer and no checkpoint of the first is taken."""
    before = keys(COLLECTION)
    for change in ({"version": "0.5.23"}, {"lora_paths": ["a"]}, {"weights": "sha256:1"}):
        after = keys(dataclasses.replace(COLLECTION, server=SERVER | change))
        assert {name for name in before if before[name] == after[name]} == {"compression", "verdict"}


def test_an_equal_server_at_another_address_has_the_same_keys() -> None:
    moved = dataclasses.replace(COLLECTION, target=dataclasses.replace(COLLECTION.target, url="http://b:30000"))
    assert keys(moved) == keys(COLLECTION)
