"""A causal language model of Hugging Face as a routed policy needs it, its Linears by the names of the modules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]  # not cuDNN's


class CausalLM(nn.Module):
    """`network` is a `...ForCausalLM`; a completion ends with one of the tokens `end`.  Nothing is dropped out."""

    def __init__(self, network: Any, end: frozenset[int]) -> None:
        super().__init__()
        self.network: Any = network.eval()
        self.end = end

    def hidden(self, ids: Tensor) -> Tensor:
        """The last hidden states [B, T, d]; rows are padded on the right, where causal attention does not look.

        So no mask is needed.  With one, the gradient of cuDNN's attention is NaN at some lengths (PyTorch's issue
        196678), and neither a mask nor cuDNN is used.
        """
        with sdpa_kernel(_KERNELS):
            states: Tensor = self.network.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state
        return states

    def logits(self, hidden: Tensor) -> Tensor:
        """[N, d] -> [N, V] float32."""
        logits: Tensor = self.network.get_output_embeddings()(hidden)
        return logits.float()

    def decoding(self, prompts: Sequence[tuple[int, ...]]) -> CachedDecoding:
        return CachedDecoding(self, prompts)


class CachedDecoding:
    """Rows that grow by one token each, prompts padded on the left, with a cache of keys and values."""

    def __init__(self, model: CausalLM, prompts: Sequence[tuple[int, ...]]) -> None:
        device = next(model.parameters()).device
        longest = max(map(len, prompts))
        self._model = model
        self._next = torch.tensor([[0] * (longest - len(row)) + list(row) for row in prompts], device=device)
        self._mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in prompts], device=device)
        self._cache: Any = None

    def logits(self) -> Tensor:
        """Of the next token of each row, [G, V].  Call it once after each `append`."""
        positions = (self._mask.cumsum(1) - 1).clamp(min=0)[:, -self._next.shape[1] :]
        found = self._model.network.get_decoder()(
            input_ids=self._next,
            attention_mask=self._mask,
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
        )
        self._cache = found.past_key_values
        return self._model.logits(found.last_hidden_state[:, -1])

    def append(self, tokens: Tensor) -> None:
        """The next token of each row [G]; what a row says after its end is not read."""
        self._next = tokens[:, None]
        self._mask = torch.cat([self._mask, torch.ones_like(self._next)], dim=1)


def load_causal_lm(folder: Path, device: str, dtype: torch.dtype, end: frozenset[int]) -> CausalLM:
    """The model of a folder."""
    from transformers import AutoModelForCausalLM

    if not end:
        raise ValueError(f"the tokenizer of {folder} has no token that ends a turn")
    network = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, local_files_only=True, trust_remote_code=False
    ).to(device)
    return CausalLM(network, end)
