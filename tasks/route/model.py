"""A causal language model of Hugging Face as training with gradient routing needs it, and sampling from it.

Sampling keeps keys and values of all rows in buffers that stay where they are; on a GPU one step is a CUDA graph.  One
token of a small model is a thousand short kernels, whose launches cost more than the work.  A graph launches them at
once.  Rows that have ended are dropped at intervals, and the rest move together into a smaller graph.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from tasks.route.adapter import Adapter

DROP_EVERY = 16
"""Tokens between two looks at which rows have ended; each look waits for the GPU."""
_PREFILL_ROWS = 64
_WIDTH = 128  # a batch has a multiple of so many tokens, so that few prompts make new graphs
_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]  # not cuDNN's

Draw = Callable[[Tensor, Tensor, int], Tensor]
"""Logits [G, V], the place [G] of each row among all prompts, and how many tokens it has -> its next token [G]."""


class Network(nn.Module):
    """What is trained: `CausalLM`, or a network of a world of one's own."""

    end: frozenset[int]

    def hidden(self, ids: Tensor) -> Tensor:
        """The last hidden states [B, T, d]; rows are padded on the right."""
        raise NotImplementedError

    def logits(self, hidden: Tensor) -> Tensor:
        """[N, d] -> [N, V] float32."""
        raise NotImplementedError


class CausalLM(Network):
    """`network` is a `...ForCausalLM`; a completion ends with one of the tokens `end`.  Nothing is dropped out."""

    def __init__(self, network: Any, end: frozenset[int]) -> None:
        super().__init__()
        self.network: Any = network.eval()
        self.end = end

    def hidden(self, ids: Tensor) -> Tensor:
        """Causal attention does not look at the padding, so no mask is needed.

        With one, the gradient of cuDNN's attention is NaN at some lengths (PyTorch's issue
        196678), and neither a mask nor cuDNN is used.
        """
        with sdpa_kernel(_KERNELS):
            states: Tensor = self.network.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state
        return states

    def logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.network.get_output_embeddings()(hidden)
        return logits.float()


def load_causal_lm(folder: Path, device: str, dtype: torch.dtype, end: frozenset[int]) -> CausalLM:
    """The model of a folder."""
    from transformers import AutoModelForCausalLM

    if not end:
        raise ValueError(f"the tokenizer of {folder} has no token that ends a turn")
    network = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, local_files_only=True, trust_remote_code=False
    ).to(device)
    return CausalLM(network, end)


def seed_of(*parts: object) -> int:
    """A seed below 2^63 that depends on all parts and on nothing else."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") >> 1


def draw_from(generator: torch.Generator) -> Draw:
    """Samples at temperature 1; what a row gets depends on the other rows."""

    def draw(logits: Tensor, _rows: Tensor, _step: int) -> Tensor:
        return torch.multinomial(torch.softmax(logits.float(), dim=1), 1, generator=generator)[:, 0]

    return draw


def draw_by_row(seed: int, numbers: Sequence[int], longest: int, device: torch.device) -> Draw:
    """Samples at temperature 1 with random numbers that depend on the seed and the row's number alone.

    So a row is the same whatever else is sampled beside it, and rows of one number are paired.
    """
    drawn = [torch.rand(longest, generator=torch.Generator().manual_seed(seed_of(seed, number))) for number in numbers]
    chances = torch.stack(drawn).to(device)

    def draw(logits: Tensor, rows: Tensor, step: int) -> Tensor:
        below = torch.softmax(logits.float(), dim=1).cumsum(1)
        wanted = chances[rows, step, None] * below[:, -1:]
        return torch.searchsorted(below, wanted, right=True)[:, 0].clamp(max=logits.shape[1] - 1)

    return draw


def up_to_end(tokens: Sequence[int], end: frozenset[int]) -> tuple[int, ...]:
    """The tokens up to the first that ends a completion."""
    length = next((place + 1 for place, token in enumerate(tokens) if token in end), len(tokens))
    return tuple(tokens[:length])


@dataclass
class _Buffers:
    """What a step reads and writes, of the first rows and tokens; keys and values are [rows, heads, width, d]."""

    keys: list[Tensor]
    values: list[Tensor]
    knobs: Tensor
    tokens: Tensor
    positions: Tensor
    mask: Tensor
    place: Tensor
    logits: Tensor

    def per_row(self) -> Iterator[Tensor]:
        yield from (*self.keys, *self.values, self.knobs, self.tokens, self.positions, self.mask)


class _Cache:
    """As much of a cache as the attention layers of transformers use."""

    def __init__(self, buffers: _Buffers, rows: slice, place: Tensor, width: int) -> None:
        self._buffers, self._rows, self._place, self._width = buffers, rows, place, width

    def update(self, keys: Tensor, values: Tensor, layer: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Put them at their place; all keys and values of the rows, up to the width."""
        found = self._buffers.keys[layer][self._rows], self._buffers.values[layer][self._rows]
        for buffer, new in zip(found, (keys, values), strict=True):
            buffer.index_copy_(2, self._place, new)
        return found[0][:, :, : self._width], found[1][:, :, : self._width]


class Sampler:
    """Samples from a model under its adapter, `rows` at once, each row with knobs of its own.

    Where a step cannot be captured as a graph, one line on stderr says so, and steps run one kernel at a time.
    """

    def __init__(self, model: CausalLM, adapter: Adapter, rows: int = 512) -> None:
        self.rows, self.captures = rows, adapter.device.type == "cuda"
        self._model, self._adapter = model, adapter
        self._buffers: _Buffers | None = None
        self._graphs: dict[tuple[int, int], Any] = {}

    @torch.no_grad()
    def sample(
        self, prompts: Sequence[tuple[int, ...]], knobs: Tensor, longest: int, draw: Draw
    ) -> list[tuple[int, ...]]:
        """A completion for each prompt, its end token included; knobs are [R], or [G, R].

        Rows in excess of `rows` wait for the others.
        """
        found: list[tuple[int, ...]] = []
        for start in range(0, len(prompts), self.rows):
            part = slice(start, start + self.rows)

            def draw_part(logits: Tensor, rows: Tensor, step: int, start: int = start) -> Tensor:
                return draw(logits, rows + start, step)

            found += self._sampled(prompts[part], knobs if knobs.dim() == 1 else knobs[part], longest, draw_part)
        return found

    def _sampled(
        self, prompts: Sequence[tuple[int, ...]], knobs: Tensor, longest: int, draw: Draw
    ) -> list[tuple[int, ...]]:
        count, prompt = len(prompts), max(map(len, prompts))
        rows, device = _bucket(count), self._adapter.device
        # Of this batch alone: what was sampled before must not decide the last bits of its logits.
        width = -(-(prompt + longest) // _WIDTH) * _WIDTH
        buffers = self._room(rows, width)
        self._begin(buffers, prompts, knobs, rows, prompt)
        end = torch.tensor(sorted(self._model.end), device=device)
        # The last column takes what rows say that stand in for none.
        drawn = torch.zeros(longest, count + 1, dtype=torch.long, device=device)
        owner = torch.arange(rows, device=device).clamp(max=count)
        ended = owner == count
        for step in range(longest):
            tokens = draw(buffers.logits[:rows], owner.clamp(max=count - 1), step)
            drawn[step].index_copy_(0, owner, tokens)
            ended = ended | torch.isin(tokens, end)
            if step + 1 == longest:
                break
            buffers.tokens[:rows, 0] = tokens
            buffers.positions[:rows] += 1
            buffers.mask[:rows, :, :, prompt + step] = True
            buffers.place.fill_(prompt + step)
            if (step + 1) % DROP_EVERY == 0:
                going = (~ended).nonzero()[:, 0]
                if not len(going):
                    break
                if (smaller := _bucket(len(going))) < rows:
                    chosen = torch.cat([going, going[:1].expand(smaller - len(going))])
                    for buffer in buffers.per_row():
                        buffer[:smaller] = buffer[chosen]
                    owner = torch.cat([owner[going], torch.full_like(chosen[len(going) :], count)])
                    ended, rows = owner == count, smaller
            self._advance(buffers, rows, width)
        return [up_to_end(row, self._model.end) for row in drawn.T[:count].tolist()]

    def _room(self, rows: int, width: int) -> _Buffers:
        """Buffers for at least so many rows and tokens; larger ones cost the graphs."""
        found = self._buffers
        if found is not None and len(found.tokens) >= rows and found.mask.shape[3] >= width:
            return found
        config = self._model.network.config
        if found is not None:
            rows, width = max(rows, len(found.tokens)), max(width, found.mask.shape[3])
        self._buffers, self._graphs = None, {}
        weight, heads = self._model.network.get_output_embeddings().weight, config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // heads
        shape = (rows, getattr(config, "num_key_value_heads", None) or heads, width, size)

        def zeros(*shape: int, dtype: torch.dtype = torch.long) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=self._adapter.device)

        self._buffers = _Buffers(
            keys=[zeros(*shape, dtype=weight.dtype) for _ in range(config.num_hidden_layers)],
            values=[zeros(*shape, dtype=weight.dtype) for _ in range(config.num_hidden_layers)],
            knobs=zeros(rows, self._adapter.layout.total, dtype=torch.float32),
            tokens=zeros(rows, 1),
            positions=zeros(rows, 1),
            mask=zeros(rows, 1, 1, width, dtype=torch.bool),
            place=zeros(1),
            logits=zeros(rows, weight.shape[0], dtype=torch.float32),
        )
        return self._buffers

    def _begin(
        self, buffers: _Buffers, prompts: Sequence[tuple[int, ...]], knobs: Tensor, rows: int, width: int
    ) -> None:
        """Read the prompts, padded on the left; rows in excess repeat the first."""
        device, filled = self._adapter.device, [*prompts, *[prompts[0]] * (rows - len(prompts))]
        ids = torch.tensor([[0] * (width - len(row)) + list(row) for row in filled], device=device)
        lengths = torch.tensor([len(row) for row in filled], device=device)
        place = torch.arange(width, device=device)
        real = place >= width - lengths[:, None]
        positions = (place - (width - lengths)[:, None]).clamp(min=0)
        buffers.knobs[: len(prompts)] = knobs
        buffers.knobs[len(prompts) : rows] = 0
        buffers.mask.zero_()
        buffers.mask[:rows, 0, 0, :width] = real
        buffers.positions[:rows, 0] = lengths - 1
        # A token of padding sees itself: what sees nothing has no softmax.
        causal, itself = place[:, None] >= place, torch.eye(width, dtype=torch.bool, device=device)
        for start in range(0, rows, _PREFILL_ROWS):
            part = slice(start, min(start + _PREFILL_ROWS, rows))
            seen = (causal & real[part, None, :] | itself)[:, None]
            states = self._forward(buffers, part, ids[part], positions[part], seen, _Cache(buffers, part, place, width))
            buffers.logits[part] = self._model.logits(states)

    def _step(self, buffers: _Buffers, rows: int, width: int) -> None:
        part, seen = slice(0, rows), slice(0, width)
        cache = _Cache(buffers, part, buffers.place, width)
        with grouped_attention(self._model.network.config):
            states = self._forward(
                buffers, part, buffers.tokens[part], buffers.positions[part], buffers.mask[part, :, :, seen], cache
            )
        buffers.logits[part] = self._model.logits(states)

    def _forward(
        self, buffers: _Buffers, rows: slice, ids: Tensor, positions: Tensor, mask: Tensor, cache: _Cache
    ) -> Tensor:
        """The state [rows, d] of the last token."""
        with self._adapter.active(buffers.knobs[rows]):
            found = self._model.network.get_decoder()(
                input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True
            )
        states: Tensor = found.last_hidden_state[:, -1]
        return states

    def _advance(self, buffers: _Buffers, rows: int, width: int) -> None:
        if self.captures and (rows, width) not in self._graphs:
            try:
                self._graphs[rows, width] = self._captured(buffers, rows, width)
            except torch.OutOfMemoryError:
                raise  # not of the graph: the card is full
            except Exception as error:  # whatever CUDA or a layer of the model refuses
                self.captures, self._graphs = False, {}
                said = " ".join(str(error).split())[:300]
                print(f"sampling goes on without CUDA graphs, slower: {said}", file=sys.stderr, flush=True)
        if self.captures:
            self._graphs[rows, width].replay()
        else:
            self._step(buffers, rows, width)

    def _captured(self, buffers: _Buffers, rows: int, width: int) -> Any:
        """One step as a graph.  It is run before: nothing may happen for the first time while it is captured."""
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):  # the same token again, at the same place
                self._step(buffers, rows, width)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # All graphs share memory: only one runs at a time, and what it leaves is in the buffers.
        pool = next((other.pool() for other in self._graphs.values()), None)
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            self._step(buffers, rows, width)
        return graph


def _bucket(rows: int) -> int:
    """The number of rows of the graph that takes so many."""
    step = 8 if rows <= 64 else 32 if rows <= 256 else 64
    return -(-rows // step) * step


@contextmanager
def grouped_attention(config: Any) -> Iterator[None]:
    """For one new token a row: heads that share keys go through attention together, instead of a copy for each."""
    from transformers import AttentionInterface

    AttentionInterface.register("whetstone_grouped", _grouped)
    before = config._attn_implementation
    config._attn_implementation = "whetstone_grouped"
    try:
        yield
    finally:
        config._attn_implementation = before


def _grouped(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    """query [B, H, 1, d], key and value [B, K, T, d], mask [B, 1, 1, T] -> [B, 1, H, d]."""
    grouped = query.reshape(query.shape[0], key.shape[1], -1, query.shape[3])
    found = torch.nn.functional.scaled_dot_product_attention(
        grouped, key, value, attn_mask=attention_mask, scale=scaling
    )
    return found.reshape(query.shape).transpose(1, 2).contiguous(), None
