"""Gradient routing of a language model on one GPU: bases, peak memory, and what probe and splits cost a step.

Prompts are random tokens, and rewards are drawn: how long a step takes does not depend on what is said or paid.  Steps
with splits, and steps without probe or splits, alternate.

    python benchmarks/gpu/route.py --model FOLDER             the model of a folder
    python benchmarks/gpu/route.py --shape qwen2.5-1.5b       random weights of Qwen2.5-Coder-1.5B's shape
    python benchmarks/gpu/route.py --shape tiny --device cpu  a second's check of this script
    python benchmarks/gpu/route.py --shape narrow --device cpu --rows 16 --prompt 24 --completion 8 --pairs-of-steps 1

`narrow` has the modules of Qwen2.5-1.5B, 196 of two sizes, but thin ones.  The operations of one more step of each kind
are counted: each is a kernel on a GPU, and each read of a single number waits for all kernels before it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from benchmarks.figures import table, write  # noqa: E402
from tasks.gpu.routing.adapter import Adapter  # noqa: E402
from tasks.gpu.routing.bases import Basis, decompose  # noqa: E402
from tasks.gpu.routing.causal_lm import CausalLM, load_causal_lm  # noqa: E402
from tasks.gpu.routing.loop import Trajectory  # noqa: E402
from tasks.gpu.routing.pair_sides import TokenPair  # noqa: E402
from tasks.gpu.routing.row_gradients import PolicyRows, RowGradients, RowLoss  # noqa: E402
from tasks.gpu.routing.static_decoding import StaticSampler  # noqa: E402
from tasks.gpu.routing.token_rows import TokenRow  # noqa: E402
from tasks.gpu.routing.trajectory_state import TrajectorySettings  # noqa: E402
from tasks.gpu.routing.world import PromptTokens, TeacherRow, WorldScore  # noqa: E402

ALL_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Every Linear of a layer of Qwen2.5."""
SPLITS = (
    *("real", "pooled", "activations", "advantage_free", "permuted", "uniform", "ceiling"),
    *("random_0", "random_1", "random_2"),
)
SHAPES: dict[str, dict[str, int]] = {
    "tiny": {
        "vocab_size": 256, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2,
    },
    "narrow": {
        "vocab_size": 256, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 28,
        "num_attention_heads": 12, "num_key_value_heads": 2,
    },
    "qwen2.5-1.5b": {
        "vocab_size": 151936, "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
        "num_attention_heads": 12, "num_key_value_heads": 2,
    },
}  # fmt: skip


class WholeGradient(PolicyRows):
    """The loop without a probe: one gradient of the sum of losses, all of it given to the first row."""

    def gradients(self, rows: Sequence[TokenRow], knobs: Tensor, loss: RowLoss, record: bool = False) -> RowGradients:
        total = torch.zeros_like(knobs)
        found, masks = [], []
        for part, batch in self._batches(rows):
            leaf = knobs.clone().requires_grad_(True)
            with torch.enable_grad(), self.adapter.active(leaf):
                log_probabilities = self._log_probabilities(batch)
                summed = loss(log_probabilities, batch.mask, part).sum()
            total += torch.autograd.grad(summed, leaf)[0]
            found.append(log_probabilities.detach())
            masks.append(batch.mask)
        gradients = total.new_zeros(len(rows), len(total))
        gradients[0] = total
        return RowGradients(gradients, torch.cat(found), torch.cat(masks), None)


# These make no kernel: they look at the same memory in another way, or allocate it.
_NO_KERNEL = ("view", "expand", "slice", "select", "transpose", "permute", "unsqueeze", "squeeze", "split", "detach",
              "alias", "empty", "as_strided", "unbind", "t.", "lift", "new_empty", "set_")  # fmt: skip
_WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "equal.")


class Operations(TorchDispatchMode):
    """Counts what is computed within it: `kernels`, and among them the `waits`, which need a value on the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()
        self.waits = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(function).removeprefix("aten.")
        if not name.lstrip("_").startswith(_NO_KERNEL):
            self.names[name] += 1
            masks = [index for index in args[1] if index is not None] if name.startswith("index.") else []
            self.waits += name.startswith(_WAITS) or any(index.dtype == torch.bool for index in masks)
        return function(*args, **(kwargs or {}))

    def counted(self) -> dict[str, int]:
        return {"kernels": sum(self.names.values()), "waits": self.waits}


class DrawnWorld:
    """Prompts and rewards at random; twelve pairs of random completions."""

    def __init__(self, vocabulary: int, groups: int, prompt: int, completion: int) -> None:
        self._vocabulary, self._groups, self._prompt = vocabulary, groups, prompt
        draw = np.random.default_rng(1)
        length = max(2, completion // 4)
        self.pairs = [
            TokenPair(self._tokens(draw, prompt), self._tokens(draw, length), self._tokens(draw, length))
            for _ in range(12)
        ]
        self.placebo = self.pairs

    def _tokens(self, draw: np.random.Generator, count: int) -> tuple[int, ...]:
        return tuple(int(token) for token in draw.integers(3, self._vocabulary, count))

    def prompts(self, step: int, generator: np.random.Generator) -> list[PromptTokens]:
        return [PromptTokens(self._tokens(generator, self._prompt), step) for _ in range(self._groups)]

    def score(self, prompts: Sequence[PromptTokens], completions: Sequence[tuple[int, ...]]) -> list[WorldScore]:
        draw = np.random.default_rng([2, len(completions), completions[0][0]])
        return [WorldScore(float(draw.random() < 0.5), {"exploited": bool(draw.random() < 0.3)}) for _ in completions]

    def teacher(self, step: int, prompts: Sequence[PromptTokens]) -> list[TeacherRow]:
        return []


def opened(given: argparse.Namespace) -> CausalLM:
    if given.model:
        return load_causal_lm(given.model, given.device, given.dtype)
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(**SHAPES[given.shape], tie_word_embeddings=True, max_position_embeddings=4096)
    with torch.device(given.device):
        network = Qwen2ForCausalLM(config)
    return CausalLM(network.to(given.dtype), frozenset({2}))


def computed_bases(model: CausalLM, targets: Sequence[str]) -> tuple[dict[str, Basis], float, float]:
    """The bases of all targets, the seconds that they took, and their largest error."""
    weights = {name: module.weight for name, module in model.named_modules() if name.rpartition(".")[2] in targets}
    began, bases, worst = now(), dict[str, Basis](), 0.0
    for number, (name, weight) in enumerate(weights.items(), 1):
        bases[name] = decompose(weight)
        worst = max(worst, bases[name].error(weight))
        if number % 28 == 0:
            print(f"bases: {number} of {len(weights)}, {now() - began:.0f} s", file=sys.stderr, flush=True)
    return bases, now() - began, worst


def now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def peak() -> float:
    """GiB on the GPU at most since the last call, the model and its bases included; 0 on a CPU."""
    if not torch.cuda.is_available():
        return 0.0
    found = torch.cuda.max_memory_allocated() / 2**30
    torch.cuda.reset_peak_memory_stats()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--model", type=Path)
    which.add_argument("--shape", choices=SHAPES)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--targets", nargs="+", choices=ALL_TARGETS, default=ALL_TARGETS, help="Linears that get knobs")
    parser.add_argument("--result", default="gpu_route", help="the name of the file in benchmarks/results")
    parser.add_argument("--rows", type=int, default=64, help="of a step, eight a group")
    parser.add_argument("--rows-at-once", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=300, help="tokens")
    parser.add_argument("--completion", type=int, default=256, help="tokens at most")
    parser.add_argument("--pairs-of-steps", type=int, default=4, help="one with splits and one without, each")
    given = parser.parse_args()
    given.dtype = torch.bfloat16 if given.device == "cuda" else torch.float32
    model = opened(given)
    bases, bases_s, error = computed_bases(model, given.targets)
    adapter = Adapter(model, bases)
    sampler = StaticSampler(model, adapter) if given.device == "cuda" else None
    world = DrawnWorld(model.network.config.vocab_size, given.rows // 8, given.prompt, given.completion)
    figures: dict[str, Any] = {
        "given": {name: str(value) for name, value in vars(given).items()},
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "modules": len(bases),
        "knobs": adapter.layout.total,
        "bases_s": bases_s,
        "largest_error": error,
    }
    peak()
    steps: dict[str, list[dict[str, float]]] = {}
    trajectories = {}
    for name, policy, splits in (
        ("splits", PolicyRows(model, adapter, given.rows_at_once, sampler=sampler), SPLITS),
        ("plain", WholeGradient(model, adapter, given.rows_at_once, sampler=sampler), ()),
    ):
        settings = TrajectorySettings(seed=1, longest=given.completion, splits=splits, refresh_every=10, fold=False)
        trajectories[name] = Trajectory(settings, policy, world)
    for number in range(given.pairs_of_steps + 1):
        for name, trajectory in trajectories.items():
            began = now()
            trajectory.step()
            found = {"seconds": now() - began, "peak_gib": peak()}
            # Step 0 is the refresh, and the first use of every kernel.
            steps.setdefault("first " + name if number == 0 else name, []).append(found)
            print(f"step {number}, {name}: {found}", file=sys.stderr, flush=True)
    counts: dict[str, dict[str, int]] = {}
    for name, trajectory in trajectories.items() if given.shape in ("tiny", "narrow") else ():
        with Operations() as operations:
            trajectory.step()
        counts[name] = operations.counted()
        print(f"one step, {name}: {counts[name]}; most: {operations.names.most_common(8)}")
    checkpoint = len(trajectories["splits"].dump())
    means = {
        name: {key: float(np.median([row[key] for row in rows])) for key in ("seconds", "peak_gib")}
        for name, rows in steps.items()
    }
    overhead = {key: means["splits"][key] / max(means["plain"][key], 1e-9) for key in ("seconds", "peak_gib")}
    figures |= {"steps": steps, "overhead": overhead, "counts": counts, "checkpoint_bytes": checkpoint}
    write(given.result, figures)
    print(f"{len(bases)} modules, {adapter.layout.total:,} knobs; bases {bases_s:.1f} s, largest error {error:.1e}")
    print(f"checkpoint of {len(SPLITS)} splits: {checkpoint:,} bytes")
    rows = [(name, f"{one['seconds']:.2f}", f"{one['peak_gib']:.1f}") for name, one in means.items()]
    print(table(("step", "median s", "peak GiB"), rows))
    print(f"overhead: {overhead['seconds']:.2f} in time, {overhead['peak_gib']:.2f} in memory")


if __name__ == "__main__":
    main()
