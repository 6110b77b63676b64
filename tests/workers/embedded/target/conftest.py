"""Small models with random weights, of the shapes that matter."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from embedded_server import HEADERS, TargetServer
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config

from workers.embedded.target.decoder import Decoder

ROWS = 16


@pytest.fixture
def http(target_server: TargetServer) -> Iterator[httpx.Client]:
    """A client with the key of the shared server, which must outlive the test."""
    with httpx.Client(base_url=target_server.url, headers=HEADERS, trust_env=False, timeout=120) as client:
        yield client
    assert target_server.process.poll() is None, "the server died"


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """A decoder sets torch's threads as it goes; each test begins with all of them."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def _save(config: Any, folder: Path) -> Path:
    torch.manual_seed(5)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def wide_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every matrix as in SmolLM2-135M, so that the same kernels run, but two layers instead of thirty."""
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=2,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=2048,
        rope_theta=100000.0,
        tie_word_embeddings=True,
        initializer_range=0.1,
        eos_token_id=2,
    )
    return _save(config, tmp_path_factory.mktemp("wide"))


@pytest.fixture(scope="session")
def calibrated(wide_model: Path) -> Callable[[torch.dtype], Decoder]:
    """Gives a decoder of the wide model that steps ROWS rows exactly; each is made once, and no test changes it."""

    @functools.cache
    def make(dtype: torch.dtype) -> Decoder:
        decoder = Decoder(wide_model, dtype)
        assert decoder.calibrate(ROWS) == ROWS, "this machine cannot step several rows exactly"
        return decoder

    return make


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A tiny model of a family: "llama", "qwen2" or "qwen3"."""
    sizes: dict[str, Any] = {
        "vocab_size": 500,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 1024,
        "initializer_range": 0.2,
        "eos_token_id": [2, 7],
    }
    classes = {"llama": LlamaConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}

    def make(family: str) -> Path:
        if family == "qwen2":
            sizes.pop("head_dim", None)
        return _save(classes[family](**sizes), tmp_path_factory.mktemp(family))

    return make
