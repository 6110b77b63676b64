"""Shared by the benchmarks of `route` on a GPU: options, a job as the farm gives it to its child, rows to sample."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from orchestrator.routing.settings import read_route_settings
from tasks.gpu.routing.rollout import AskedSample, evaluate_samples
from tasks.gpu.routing.world import World, WorldScore
from tasks.gpu.training.worlds import TrainedWorld
from tasks.route.texts import problems_of
from tasks.routing.grading import grading_pool
from tasks.routing.pool import build_pool

ROOT = Path(__file__).resolve().parents[2]
Given = dict[str, Any]
ALL_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Every Linear of a layer of Qwen2.5."""
BEGAN = time.monotonic()


def add_route_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", type=Path, required=True, help="a folder")
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "route.yaml")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--folder", type=Path, required=True, help="takes bases, the pool and checkpoints")
    parser.add_argument("--levels", type=int, nargs="+", default=None, help="of the problems; without it the config's")
    parser.add_argument("--tokens", type=int, default=None, help="of a completion at most; without it the config's")
    parser.add_argument("--prompts", type=int, default=None, help="groups a step; without it the config's")
    parser.add_argument("--splits", nargs="+", default=None, help="without it the config's")
    parser.add_argument("--gib", type=float, default=72.0, help="of the card, at most, for all processes together")
    parser.add_argument("--seconds", type=float, default=1e9, help="the time left; what has no time is not done")


def limit_memory(options: argparse.Namespace) -> None:
    """Leave what `--gib` does not name to the other processes on the card."""
    if options.device == "cuda":
        total = torch.cuda.mem_get_info()[1]
        torch.cuda.set_per_process_memory_fraction(min(1.0, options.gib * 2**30 / total))


def left(options: argparse.Namespace) -> float:
    """Seconds until the time of this script is over."""
    return float(options.seconds) - (time.monotonic() - BEGAN)


def job_given(options: argparse.Namespace, seed: int, steps: int, **changed: Any) -> Given:
    """What the farm gives a child that trains the trajectory `shared` of the config with this seed.

    `changed` are keys of the sections model, training and routing.
    """
    settings = dataclasses.asdict(read_route_settings(options.config))
    settings["model"] |= {"device": options.device, "dtype": "bfloat16" if options.device == "cuda" else "float32"}
    training = settings["training"]
    training |= {"steps": steps, "rollout_ablate_frac": 0.0, "checkpoint_every": min(5, steps)}
    for name, given in (("levels", options.levels), ("max_new_tokens", options.tokens), ("prompts", options.prompts)):
        training[name] = training[name] if given is None else given
    if options.splits is not None:
        changed = {"splits": options.splits, **changed}
    for name, value in changed.items():
        section = next(part for part in ("model", "training", "routing") if name in settings[part])
        settings[section][name] = value
    folder: Path = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    texts = {name: (ROOT / path).read_text() for name, path in settings["data"].items()}
    sections = ("world", "model", "training", "routing", "evaluation")
    return {
        "inputs": {"target": {"device": options.device}, **{name: settings[name] for name in sections}},
        "trajectory": "shared",
        "seed": seed,
        "data": texts,
        "teacher": _pool(folder / "pool.json", texts["problems"]),
        "model_folder": str(options.model.resolve()),
        "bases_folder": str(folder / "bases"),
        "begin": "",
        "folder": str(folder),
    }


def _pool(path: Path, problems: str) -> list[dict[str, Any]]:
    if not path.exists():
        with grading_pool() as grading:
            rows = build_pool(problems_of(problems), grading)
        path.write_text(json.dumps([dataclasses.asdict(row) for row in rows]))
    found: list[dict[str, Any]] = json.loads(path.read_text())
    return found


def scores_in_time(
    options: argparse.Namespace,
    trained: TrainedWorld,
    world: World,
    asked: Sequence[AskedSample],
    longest: int,
    seed: int,
    at_once: int = 512,
) -> Iterator[list[WorldScore]]:
    """Batch after batch, while there is time for one more."""
    began, done = time.monotonic(), 0
    batches = (asked[start : start + at_once] for start in range(0, len(asked), at_once))
    for scores in evaluate_samples(trained.policy, world, batches, longest, seed):
        yield scores
        done += len(scores)
        took = time.monotonic() - began
        say(f"{done} of {len(asked)} rows, {done / took:.0f} a second")
        if left(options) < 1.5 * took / done * at_once:
            return


def now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def peak_gib() -> float:
    """The most that tensors of this process took since the last call; 0 on a CPU."""
    if not torch.cuda.is_available():
        return 0.0
    found = torch.cuda.max_memory_allocated() / 2**30
    torch.cuda.reset_peak_memory_stats()
    return round(found, 2)


def say(text: str) -> None:
    print(f"[{time.monotonic() - BEGAN:.0f} s] {text}", file=sys.stderr, flush=True)
