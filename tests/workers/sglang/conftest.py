"""A model that an embedded server loads at once: SmolLM2's tokenizer, and few random weights; and a bench's store."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from farm_bench import Bench
from transformers import AutoModelForCausalLM, LlamaConfig

from tasks.store.address import ENVIRONMENT_VARIABLE, store_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.embedded.models import embedded_model


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = LlamaConfig(
        vocab_size=49152, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=2048, initializer_range=0.2, eos_token_id=2,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("small")
    torch.manual_seed(5)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    for file in embedded_model().glob("*token*"):
        shutil.copy(file, folder)
    for file in embedded_model().glob("chat_template*"):
        shutil.copy(file, folder)
    return folder


@pytest.fixture
def store(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store of the bench, which the tasks of this process use too."""
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, bench.url)
    return Store(connect(store_url(bench.url)))
