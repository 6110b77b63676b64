"""Each token's embedding is the embedder's own, however the work is cut up."""

from __future__ import annotations

from collections.abc import Iterator

import cluster_families as families
import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from tasks.gpu.clustering import ClusteringError
from tasks.gpu.clustering.describe import describe_cluster, token_kind
from tasks.gpu.clustering.embed import embed_tokens, embedded_text, memory_errors
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


def test_progress_ends_at_the_number_of_tokens() -> None:
    told: list[tuple[str, int, int]] = []
    embed_tokens(
        [" a", "a", "b", "revenue"],
        families.minilm_folder(),
        "cpu",
        1,
        lambda stage, done, total: told.append((stage, done, total)),
    )
    assert told[0] == ("embed", 0, 4)
    assert told[-1] == ("embed", 4, 4)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (" revenue", "revenue"),
        ("ing", "ing"),
        ("", "unused token"),
        ("   ", "blank space"),
        ("\t", "blank space"),
        ("\n\n", "line break"),
        ("\ufffd\ufffd", "part of a character"),
        (" \ufffd", "part of a character"),
        (" caf\ufffd", "caf"),
        ("<|im_start|>", "<|im_start|>"),
    ],
)
def test_what_is_embedded_for_a_token(token: str, words: str) -> None:
    assert embedded_text(token) == words


def test_a_very_long_token_is_cut_not_refused() -> None:
    assert np.array_equal(*embed([" -" * 200, " -" * 300]))


def test_memory_that_is_not_there_is_a_sentence() -> None:
    # given more than any machine has, really asked for
    with pytest.raises(ClusteringError, match='"cpu" has not enough free memory'), memory_errors("cpu"):
        torch.empty(10**16)
    # while another error stays what it is
    with pytest.raises(RuntimeError, match="shapes"), memory_errors("cpu"):
        torch.ones(2, 3) @ torch.ones(2, 3)


def test_an_embedder_that_is_not_there_is_a_sentence() -> None:
    with pytest.raises(ClusteringError, match=r'embedder "/no/such/folder".*no such folder'):
        embed_tokens(["a"], "/no/such/folder", "cpu", 1, no_progress)


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        (" revenue", "words"),
        ("venue", "word pieces"),
        (" Revenue", "capitalised words"),
        (" NASDAQ", "words in capitals"),
        (" ...", "punctuation"),
        ("\n\n", "white space"),
        ("1st", "word pieces"),
        ("(3)", "numbers with other characters"),
        (" доход", "tokens of other scripts"),
        ("getName", "pieces of code"),
        ("self.x", "pieces of code"),
        ("<|reserved_7|>", "markers"),
        ("[unused12]", "markers"),
        ("\ufffd", "parts of characters"),
        ("", "unused tokens"),
    ],
)
def test_kinds_of_tokens(token: str, kind: str) -> None:
    assert token_kind(token) == kind


def test_a_description_names_kinds_common_tokens_and_the_centre() -> None:
    # given a cluster of five tokens, of which ids 3 and 4 lie nearest its centre
    texts = ["r", " Profit", " revenue", " income", " profit"]
    described = describe_cluster(7, texts, np.arange(5), np.array([4, 3, 2, 0, 1], dtype=np.float32))
    # then the words are counted by kind, and "Profit" and "profit" are one example
    assert described["id"] == 7
    assert described["count"] == 5
    assert described["description"] == (
        'Words (60 %), capitalised words (20 %) and word pieces (20 %); common ones: "Profit", "revenue", "income"; '
        'at its centre: "income", "profit", "revenue", "r"'
    )
