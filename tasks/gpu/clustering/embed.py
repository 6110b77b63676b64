"""A sentence embedding for every token (sentence-transformers).

A token's text is embedded without the white space around it: the leading space of most tokens marks the beginning of
a word and has no meaning.  Three kinds of token have no such text and are embedded as words, so that each kind has one
embedding: white space alone ("blank space", or "line break" when it contains one), a part of a character ("part of a
character"), and ids without a token ("unused token").

Equal inputs are embedded once.  Inputs of equal length share a batch, so nothing is padded.  Each batch is computed by
one thread, so the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.gpu.clustering.artifacts import ClusteringError, cannot_load
from tasks.gpu.clustering.process import Progress
from tasks.gpu.clustering.vocabulary import REPLACEMENT

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Ids = tuple[int, ...]
"""One input of the embedder: its own token ids."""

MAX_LENGTH = 32
"""In the embedder's tokens; longer tokens are mostly runs of dashes."""
NO_PICKLE = {"use_safetensors": True, "weights_only": True}
"""The embedder's own sentence_bert_config.json may ask for the opposite of both, and is overruled by these."""


def embedded_text(text: str) -> str:
    """The words that are embedded for a token with this text. Never empty."""
    if not text:
        return "unused token"
    words = text.replace(REPLACEMENT, "").strip()
    if words:
        return words
    if REPLACEMENT in text:
        return "part of a character"
    return "line break" if "\n" in text or "\r" in text else "blank space"


def embed_tokens(
    texts: Sequence[str], embedder: str | Path, device: str, batch_size: int, on_progress: Progress
) -> NDArray[np.float32]:
    """Embeddings [len(texts), dimension] float32 of tokens with these texts.

    `embedder`: a folder or a Hugging Face id.  `batch_size`: inputs in a batch, at most.  `device`: "cpu" or "cuda".
    """
    on_progress("embed", 0, len(texts))
    words = [embedded_text(text) for text in texts]
    distinct = sorted(set(words))
    with memory_errors(device):
        model = _load(embedder, device)
        inputs = _tokenize(model, distinct)
        batches = list(_batches(inputs, batch_size))
        rows: dict[Ids, NDArray[np.float32]] = {}
        total = sum(len(batch) for batch in batches)
        for batch, embeddings in _embed(model, batches):
            rows.update(zip(batch, embeddings, strict=True))
            on_progress("embed", len(rows) * len(texts) // total, len(texts))
    input_of = dict(zip(distinct, inputs, strict=True))
    return np.stack([rows[input_of[word]] for word in words])


@contextmanager
def memory_errors(device: str) -> Iterator[None]:
    """Turn a device's out-of-memory errors into a ClusteringError."""
    import torch

    message = (
        f'the device "{device}" has not enough free memory to embed the vocabulary; free some, or use smaller batches'
    )
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise ClusteringError(message) from error
    except RuntimeError as error:  # raised by the allocations of CUDA's own libraries
        if "out of memory" not in str(error).lower() and "alloc" not in str(error).lower():
            raise
        raise ClusteringError(message) from error


def _load(embedder: str | Path, device: str) -> SentenceTransformer:
    import torch
    from sentence_transformers import SentenceTransformer

    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ClusteringError(
            f'the device is "{device}" but this machine has no GPU that torch {torch.__version__} can use'
        )
    try:
        model = SentenceTransformer(str(embedder), device=device, trust_remote_code=False, model_kwargs=NO_PICKLE)
    except (OSError, ValueError) as error:
        raise cannot_load("embedder", embedder, error) from error
    model.max_seq_length = min(model.max_seq_length or MAX_LENGTH, MAX_LENGTH)
    return model.eval()


def _tokenize(model: SentenceTransformer, words: Sequence[str], chunk: int = 4096) -> list[Ids]:
    """The embedder's token ids for each of the words, special ones included, padding not."""
    inputs: list[Ids] = []
    for start in range(0, len(words), chunk):
        features: dict[str, Any] = model.preprocess(list(words[start : start + chunk]))
        for ids, mask in zip(features["input_ids"].tolist(), features["attention_mask"].tolist(), strict=True):
            inputs.append(tuple(i for i, real in zip(ids, mask, strict=True) if real))
    return inputs


def _batches(inputs: Sequence[Ids], batch_size: int) -> Iterator[tuple[Ids, ...]]:
    """The distinct inputs, longest first so that the last batch is short to compute, each batch of one length."""
    for _, same_length in groupby(sorted(set(inputs), key=lambda ids: (-len(ids), ids)), key=len):
        group = list(same_length)
        for start in range(0, len(group), batch_size):
            yield tuple(group[start : start + batch_size])


def _embed(
    model: SentenceTransformer, batches: Sequence[tuple[Ids, ...]]
) -> Iterator[tuple[tuple[Ids, ...], NDArray[np.float32]]]:
    """Each batch with its embeddings [len(batch), dimension], in the order in which they are ready."""
    import torch

    threads = torch.get_num_threads()
    workers = threads if model.device.type == "cpu" else 1

    def embed(batch: tuple[Ids, ...]) -> tuple[tuple[Ids, ...], NDArray[np.float32]]:
        ids = torch.tensor(batch, device=model.device)
        features: Any = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "modality": "text"}
        with torch.inference_mode():
            return batch, model(features)["sentence_embedding"].float().cpu().numpy()

    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        for done in as_completed([pool.submit(embed, batch) for batch in batches]):
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)
