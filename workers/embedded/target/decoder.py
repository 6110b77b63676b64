"""The forward pass of a Llama-shaped model, for one prompt at a time and for a fixed number of rows at a time.

The weights are those of transformers' own model.  A library's linear layer gives each row the same bits whatever its
neighbours hold, as long as the number of rows is the same.  So a prompt is always computed alone, and a step has one of
a few numbers of rows that were found to give the same bits: no answer depends on what else is in flight.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import rms_norm, silu
from transformers import AutoModelForCausalLM

from workers.embedded.target.attention import BATCHED, KVCache, Linear, Prompt, causal

FAMILIES = ("llama", "qwen2", "qwen3")
ROPES = ("default", "linear", "llama3", "yarn")  # whose angles do not depend on how long a text is

TRIED = (5, 63, 257, 500, 700)  # tokens of prompts by which a machine is tried: batched, at edges of blocks, and longer
LOAD = Path("/proc/loadavg")  # "... <running>/<all> ...": threads of the whole machine that run or want to

Attend = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Layer:
    """One block's weights; the three projections into attention are one matrix, and so are gate and up."""

    before: torch.Tensor
    qkv: Linear
    head_norm: torch.Tensor | None  # [heads + kv heads, d]: Qwen3 normalizes each query and key
    out: Linear
    after: torch.Tensor
    gate_up: Linear
    down: Linear


class Decoder:
    """A model of one of `FAMILIES`, loaded from a folder.  Call `calibrate` first."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, local_files_only=True, use_safetensors=True, trust_remote_code=False
        )
        config = model.config
        _check_supported(config)
        self.dtype = dtype
        self.context: int = config.max_position_embeddings
        self.vocabulary: int = config.vocab_size
        self.d: int = model.model.layers[0].self_attn.head_dim
        self.heads: int = config.num_attention_heads
        self.kv_heads: int = config.num_key_value_heads
        self._eps: float = config.rms_norm_eps
        self._embedding = model.model.embed_tokens.weight.detach()
        self._norm = model.model.norm.weight.detach()
        self._head = Linear(model.lm_head.weight.detach())
        self._cos, self._sin = self._angles(model.model.rotary_emb)
        self._most_threads = 0  # until `calibrate`
        self._longest_batched = 0
        self._sizes: tuple[int, ...] = ()
        # The fused copies replace the model's own matrices one layer at a time, so that memory never holds both.
        self._layers: list[Layer] = []
        while len(model.model.layers):
            self._layers.append(self._fuse(model.model.layers[0]))
            del model.model.layers[0]

    def new_cache(self, rows: int) -> KVCache:
        return KVCache(len(self._layers), rows, self.kv_heads, self.d, self.dtype)

    def calibrate(self, rows: int) -> int:
        """Find out how this machine computes a step exactly, each row's bits apart from the others', and keep to it.

        No library promises it: a kernel may choose its path by the place of a row or the number of threads.  Returns
        how many rows to step: `rows`, or 1 where the machine cannot keep them apart.
        """
        threads = dict.fromkeys((tuple(sorted({1, torch.get_num_threads()})), (1,)))
        sizes = (tuple(sorted({max(1, rows // part) for part in (8, 4, 2, 1)})), (rows,))
        exact = (way for way in itertools.product(threads, sizes, (BATCHED, 0)) if self._is_exact(*way))
        counts, self._sizes, self._longest_batched = next(exact, ((1,), (1,), 0))
        self._most_threads = torch.get_num_threads() if counts != (1,) else 1
        torch.set_num_threads(self._most_threads)
        return self._sizes[-1]

    @torch.inference_mode()
    def _is_exact(self, counts: Sequence[int], sizes: tuple[int, ...], longest_batched: int) -> bool:
        """Whether the first layer and the head give prompts the same bits in every place, beside whatever others."""
        self._sizes, self._longest_batched = sizes, longest_batched
        layers, self._layers = self._layers, self._layers[:1]
        ids = torch.randint(self.vocabulary, (max(TRIED) + 1,), generator=torch.Generator().manual_seed(0)).tolist()
        found: dict[int, list[torch.Tensor]] = {2 * length + step: [] for length in TRIED for step in (0, 1)}
        before = torch.get_num_threads()
        try:
            for count in counts:
                torch.set_num_threads(count)
                prompts = {length: self.prefill(ids[:length]) for length in TRIED}
                for length, prompt in prompts.items():
                    found[2 * length].append(prompt.logits)
                for size, first in itertools.product(sizes, range(len(TRIED))):
                    placed = {row: TRIED[(first + row) % len(TRIED)] for row in range(size)}
                    cache = self.new_cache(sizes[-1])
                    for row, length in placed.items():
                        cache.admit(row, prompts[length].kv)
                    logits = self.step({row: (ids[length], length) for row, length in placed.items()}, cache)
                    for row, length in placed.items():
                        found[2 * length + 1].append(logits[row].clone())
        finally:
            torch.set_num_threads(before)
            self._layers = layers
        return all(torch.equal(one, each[0]) for each in found.values() for one in each)

    def prefill(self, ids: Sequence[int]) -> Prompt:
        length = len(ids)
        kv: list[torch.Tensor] = []

        def attend_to_prompt(qk: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            parts = (qk[:, : self.heads], qk[:, self.heads :], value)
            query, key, value = (part.transpose(0, 1) for part in parts)
            kv.append(torch.stack((key, value)))
            return causal(query, key, value).transpose(0, 1).reshape(length, -1)

        x = self._embedding[torch.tensor(ids)]
        for layer in self._layers:
            choose_threads(self._most_threads)
            x = self._block(x, layer, self._cos[:length], self._sin[:length], attend_to_prompt)
        return Prompt(torch.stack(kv, 1), self._logits(x[-1:])[0])

    def step(self, entering: Mapping[int, tuple[int, int]], cache: KVCache) -> torch.Tensor:
        """One token in each row in use -> logits [n, vocabulary] float32. `entering`: (token, position) by row."""
        rows = next((size for size in self._sizes if max(entering) < size <= cache.rows), cache.rows)
        tokens, positions = torch.zeros(2, rows, dtype=torch.int64)
        for row, (token, position) in entering.items():
            tokens[row], positions[row] = token, position
        plan = cache.plan({row: position + 1 for row, (_, position) in entering.items()}, rows, self._longest_batched)
        choose_threads(self._most_threads)
        cos, sin = self._cos[positions], self._sin[positions]
        x = self._embedding[tokens]
        for number, layer in enumerate(self._layers):

            def attend(qk: torch.Tensor, value: torch.Tensor, number: int = number) -> torch.Tensor:
                return cache.attend(number, qk[:, : self.heads], qk[:, self.heads :], value, plan)

            x = self._block(x, layer, cos, sin, attend)
        return self._logits(x)

    def _block(
        self, x: torch.Tensor, layer: Layer, cos: torch.Tensor, sin: torch.Tensor, attention: Attend
    ) -> torch.Tensor:
        """x [n, hidden] -> [n, hidden]. `attention` gets queries with keys, and values, [n, any heads, d]."""
        hidden = x.shape[-1:]
        split = layer.qkv(rms_norm(x, hidden, layer.before, self._eps)).view(len(x), -1, self.d)
        qk, value = split[:, : -self.kv_heads], split[:, -self.kv_heads :]
        if layer.head_norm is not None:
            qk = rms_norm(qk, (self.d,), None, self._eps) * layer.head_norm
        # `sin` carries the minus of the first half, so a rotation is two products: of plain and of swapped halves.
        qk = torch.addcmul(qk * cos, torch.roll(qk, self.d // 2, -1), sin)
        x = x + layer.out(attention(qk, value))
        gate, up = layer.gate_up(rms_norm(x, hidden, layer.after, self._eps)).chunk(2, -1)
        return x + layer.down(silu(gate) * up)

    def _logits(self, x: torch.Tensor) -> torch.Tensor:
        return self._head(rms_norm(x, x.shape[-1:], self._norm, self._eps)).float()

    def _angles(self, rotary: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """cos and sin [context, 1, d] of every position, sin with the minus of the rotation's first half."""
        cos, sin = rotary(self._embedding[:1], torch.arange(self.context)[None])
        sign = torch.ones(self.d, dtype=self.dtype)
        sign[: self.d // 2] = -1
        return cos[0, :, None].detach(), (sin[0, :, None] * sign).detach()

    def _fuse(self, block: Any) -> Layer:
        attention, mlp = block.self_attn, block.mlp
        projections = (attention.q_proj, attention.k_proj, attention.v_proj)
        bias = norm = None
        if attention.q_proj.bias is not None:
            bias = torch.cat([p.bias.detach() for p in projections])
        if hasattr(attention, "q_norm"):
            counts = ((attention.q_norm, self.heads), (attention.k_norm, self.kv_heads))
            norm = torch.cat([n.weight.detach().expand(k, -1) for n, k in counts])
        return Layer(
            before=block.input_layernorm.weight.detach(),
            qkv=Linear(torch.cat([p.weight.detach() for p in projections]), bias),
            head_norm=norm,
            out=Linear(attention.o_proj.weight.detach()),
            after=block.post_attention_layernorm.weight.detach(),
            gate_up=Linear(torch.cat([mlp.gate_proj.weight.detach(), mlp.up_proj.weight.detach()])),
            down=Linear(mlp.down_proj.weight.detach()),
        )


def _check_supported(config: Any) -> None:
    rope = (config.rope_parameters or {}).get("rope_type", "default")
    plain = config.hidden_act == "silu" and not getattr(config, "mlp_bias", False)
    sliding = getattr(config, "use_sliding_window", False)
    out_bias = config.model_type == "llama" and config.attention_bias
    if config.model_type not in FAMILIES or rope not in ROPES or not plain or sliding or out_bias:
        raise ValueError(
            f"the embedded target runs {', '.join(FAMILIES)} with silu, full attention, and {', '.join(ROPES)} rope; "
            f"this model is {config.model_type} with {config.hidden_act} and {rope}: serve it with SGLang"
        )


def choose_threads(most: int, load: Path = LOAD) -> None:
    """Have torch use `most` threads where the machine has cores for them at this moment, else one.

    A step is two hundred short parallel loops, and each ends when its last thread does: where another process holds a
    core, two threads were up to sixty times slower than one.  To be used by the engine's thread alone.
    """
    if most <= 1:
        return
    current = torch.get_num_threads()
    try:
        running = int(load.read_text().split()[3].split("/")[0])
    except OSError:
        running = 0  # not on Linux: assume free cores, as torch does
    # Ours spin for a moment after a loop, so as many as we use may be our own.
    chosen = most if max(0, running - current) + most <= (os.cpu_count() or 1) else 1
    if chosen != current:
        torch.set_num_threads(chosen)
