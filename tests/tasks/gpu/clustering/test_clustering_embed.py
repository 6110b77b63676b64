"""Each token's embedding is the embedder's own, however the work is cut up."""

from __future__ import annotations

from collections.abc import Iterator

import cluster_families as families
import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from tasks.gpu.clustering.embed import embed_tokens, embedded_text
from tasks.gpu.clustering.process import no_progress
from tasks.gpu.clustering.vocabulary import decode_vocabulary


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def embed(texts: list[str], batch_size: int = 64) -> np.ndarray:
    return embed_tokens(texts, families.minilm_folder(), "cpu", batch_size, no_progress)


def test_they_are_what_sentence_transformers_gives_for_the_same_text() -> None:
    # given a vocabulary with words, parts of words, spaces, bytes and markers
    texts = decode_vocabulary(families.llama3())
    # when it is embedded here, and plainly by the library
    ours = embed(texts)
    model = SentenceTransformer(str(families.minilm_folder()), device="cpu")
    plain = model.encode([embedded_text(text) for text in texts], batch_size=32)
    # then they agree to the rounding of float32
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, plain, atol=2e-6)


@pytest.mark.usefixtures("threads")
def test_the_number_of_threads_changes_no_bit() -> None:
    texts = decode_vocabulary(families.qwen())
    found = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        found.append(embed(texts, batch_size=16))
        assert torch.get_num_threads() == count  # and the caller's setting is as it was
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
