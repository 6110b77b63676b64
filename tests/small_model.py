"""A model that an embedded server loads at once: SmolLM2's tokenizer, and few random weights."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from workers.embedded.models import embedded_model


def make_small_model(folder: Path, seed: int = 5, layers: int = 2) -> Path:
    config = LlamaConfig(
        vocab_size=49152, hidden_size=64, intermediate_size=96, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=2048, initializer_range=0.2, eos_token_id=2,
    )  # fmt: skip
    torch.manual_seed(seed)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    for pattern in ("*token*", "chat_template*"):
        for file in embedded_model().glob(pattern):
            shutil.copy(file, folder)
    return folder
