"""Gradients and sampling on the GPU: are gradients finite and repeatable, do graphs say what plain decoding says?

    python benchmarks/gpu/route_decoding.py --model FOLDER --folder outputs/route-work

In the order of weight, as far as there is time.  Exit status 1 when a gradient of the training path is not finite.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.figures import write
from benchmarks.gpu import route_common as common
from orchestrator.routing.build import arms, deployments
from orchestrator.routing.settings import read_route_settings
from tasks.gpu.routing.causal_lm import CausalLM
from tasks.gpu.routing.pair_sides import pair_gradients
from tasks.gpu.routing.refresh import refresh_splits
from tasks.gpu.routing.row_gradients import PolicyRows, total_nll
from tasks.gpu.routing.sampling import draw_from, sample_completions
from tasks.gpu.routing.static_decoding import StaticSampler
from tasks.gpu.routing.token_rows import TokenRow
from tasks.gpu.routing.trajectory_state import TrajectorySettings, first_state
from tasks.gpu.training.work import EVALUATED_ROWS, opened_world, trajectory_settings
from tasks.gpu.training.worlds import TrainedWorld

Figures = dict[str, Any]
SAMPLING_S, REFRESHES_S = 45.0, 25.0  # what each takes on an H200 that others use too


def greedy(logits: Tensor, rows: Tensor, step: int) -> Tensor:
    return logits.argmax(1)


def agreement(policy: PolicyRows, sampler: StaticSampler, prompts: list[tuple[int, ...]], tokens: int) -> Figures:
    """Greedy tokens of both ways for the same rows; in bfloat16 two nearly equal logits may change places."""
    knobs = policy.adapter.zeros()
    began = common.now()
    with policy.adapter.active(knobs):
        plain = sample_completions(policy.model, prompts, tokens, greedy)
    plain_s = common.now() - began
    found = sampler.sample(prompts, knobs, tokens, greedy)
    began = common.now()
    found = sampler.sample(prompts, knobs, tokens, greedy)
    graph_s = common.now() - began
    same = [a == b for a, b in zip(plain, found, strict=True)]
    first = [next((t for t, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]), -1)
             for a, b in zip(plain, found, strict=True)]  # fmt: skip
    # How far both are from the training path, for the tokens that the sampler said.
    rows = [TokenRow(prompt, completion) for prompt, completion in zip(prompts, found, strict=True)]
    scored, mask = policy.log_probabilities(rows, knobs)
    most = float((scored * mask).sum() / mask.sum())
    return {"rows": len(prompts), "equal": sum(same), "first_difference": first, "plain_s": plain_s,
            "graph_s": graph_s, "captures": sampler.captures, "mean_logprob": most}  # fmt: skip


def speeds(sampler: StaticSampler, knobs: Tensor, prompts: list[tuple[int, ...]], tokens: int) -> list[Figures]:
    found = []
    for rows in (64, 256, EVALUATED_ROWS):
        given = [prompts[number % len(prompts)] for number in range(rows)]
        generator = torch.Generator(knobs.device).manual_seed(1)
        for first in (True, False):
            began = common.now()
            drawn = sampler.sample(given, knobs, tokens, draw_from(generator))
            took = common.now() - began
            said = sum(map(len, drawn))
            cut = sum(len(row) == tokens for row in drawn)
            found.append({"rows": rows, "first": first, "seconds": took, "tokens": said, "cut": cut})
            captures = ", with captures" if first else ""
            common.say(f"{rows} rows{captures}: {took:.1f} s, {said / took:.0f} tokens a second")
    return found


def evaluation_estimate(config: Path, found: list[Figures], opened_s: float) -> Figures:
    """How long the evaluation of the config takes, in batches as its jobs have them, one job after another."""
    settings = read_route_settings(config)
    jobs = arms(settings)
    samples = sum(len(deployments(settings, arm)) for arm in jobs) * settings.evaluation.samples
    large = next(one for one in found[::-1] if one["rows"] == EVALUATED_ROWS)
    seconds = len(jobs) * opened_s + samples / large["rows"] * large["seconds"]
    return {"jobs": len(jobs), "samples": samples, "minutes": round(seconds / 60, 1)}


def repeatable(policy: PolicyRows, rows: list[TokenRow]) -> tuple[bool, float]:
    """Whether the same gradient comes out twice, and the seconds of one."""
    policy.gradients(rows, policy.adapter.zeros(), total_nll)
    began = common.now()
    one = policy.gradients(rows, policy.adapter.zeros(), total_nll).gradients
    took = common.now() - began
    other = policy.gradients(rows, policy.adapter.zeros(), total_nll).gradients
    return bool(torch.equal(one, other)), took


class _Masked(CausalLM):
    """Attention as PyTorch chooses it for rows with a mask; token 0 counts as padding."""

    def hidden(self, ids: Tensor) -> Tensor:
        states: Tensor = self.network.get_decoder()(
            input_ids=ids, attention_mask=(ids != 0).long(), use_cache=False
        ).last_hidden_state
        return states


def not_finite(policy: PolicyRows, prompt: tuple[int, ...]) -> dict[str, int]:
    """In how many of 8 rows the gradient is no number, by the length of the padded batch; some are 64 modulo 128."""
    found = {}
    for length in (320, 321, 384, 448, 450, 576):
        rows = [TokenRow(prompt, (prompt * 4)[: length - len(prompt) - 9 * short]) for short in range(8)]
        found[str(length)] = int((~policy.gradients(rows, policy.adapter.zeros(), total_nll).finite()).sum())
    return found


def refreshes(settings: TrajectorySettings, trained: TrainedWorld, figures: Figures) -> None:
    """The seconds of a refresh: at first, when all splits have the same knobs, and later, when each has its own."""
    state = first_state(settings, trained.policy.adapter.layout.total, trained.policy.adapter.device)
    for name in ("first", "later"):
        if name == "later":
            splits = {}
            for number, (key, split) in enumerate(state.splits.items()):
                moved = replace(split.routed, value=split.routed.value + 1e-4 * (number + 1))
                splits[key] = replace(split, routed=moved)
            state = replace(state, splits=splits)
        began = common.now()
        refresh_splits(settings, trained.policy, trained.training, state)
        figures[f"refresh_{name}_s"] = common.now() - began
        common.say(f"refresh, {name}: {figures[f'refresh_{name}_s']:.1f} s")
        write("gpu_route_decoding", figures)


def gradients(trained: TrainedWorld, prompt: tuple[int, ...], figures: Figures) -> None:
    """How many are no numbers, how long the pairs take, and whether the same gradient comes out twice."""
    policy = trained.policy
    assert isinstance(policy.model, CausalLM)
    free, strict = (PolicyRows(policy.model, policy.adapter, 8, deterministic=chosen) for chosen in (False, True))
    masked = PolicyRows(_Masked(policy.model.network, policy.model.end), policy.adapter, 8)
    for name, asked in (("not_finite", free), ("not_finite_with_a_mask", masked)):
        figures[name] = not_finite(asked, prompt)
        common.say(f"{name}, rows of 8 by length: {figures[name]}")
        write("gpu_route_decoding", figures)
    began = common.now()
    pair_gradients(policy, trained.training.pairs, policy.adapter.zeros(), "mean")
    figures["pairs_once_s"] = common.now() - began
    rows = [TokenRow(pair.prompt, pair.cho) for pair in trained.training.pairs]
    figures["repeatable"], figures["gradients_s"] = repeatable(free, rows)
    try:
        figures["deterministic_repeatable"], figures["deterministic_s"] = repeatable(strict, rows)
    except RuntimeError as error:
        figures["deterministic_refused"] = " ".join(str(error).split())[:300]
    figures["gradients_gib"] = common.peak_gib()


def sampling(options: argparse.Namespace, trained: TrainedWorld, figures: Figures) -> None:
    """Graphs against plain decoding, and the speed of batches of several sizes."""
    policy, longest = trained.policy, figures["longest"]
    assert isinstance(policy.model, CausalLM)
    sampler = policy.sampler or StaticSampler(policy.model, policy.adapter)
    assert isinstance(sampler, StaticSampler)
    prompts = [p.tokens for p in trained.training.prompts(0, np.random.default_rng(0))]
    figures["agreement"] = agreement(policy, sampler, prompts[:8], min(64, longest))
    common.say(f"temperature 0, graph against plain: {figures['agreement']}")
    figures["speeds"] = speeds(sampler, policy.adapter.zeros(), prompts, longest)
    figures["sampling_gib"] = common.peak_gib()
    figures["registered_evaluation"] = evaluation_estimate(options.config, figures["speeds"], figures["opened_s"])
    common.say(f"the registered evaluation: {figures['registered_evaluation']}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.add_route_options(parser)
    options = parser.parse_args()
    common.limit_memory(options)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # for gradients in a fixed order
    given = common.job_given(options, 100, 1)
    began = common.now()
    trained = opened_world(given, lambda done, total: None)
    settings = trajectory_settings(given)
    prompt = next(p.tokens for p in trained.training.prompts(0, np.random.default_rng(0)))
    figures: Figures = {"opened_s": common.now() - began, "basis_error": trained.basis_error,
                        "bases_computed": trained.computed, "longest": settings.longest}  # fmt: skip
    common.say(f"opened in {figures['opened_s']:.1f} s, {trained.computed} bases computed")
    gradients(trained, prompt, figures)
    write("gpu_route_decoding", figures)
    if common.left(options) > SAMPLING_S:
        sampling(options, trained, figures)
        write("gpu_route_decoding", figures)
    if common.left(options) > REFRESHES_S:
        refreshes(settings, trained, figures)
    common.say("; ".join(f"{name} {value}" for name, value in figures.items() if name not in ("speeds", "agreement")))
    print(json.dumps(figures))
    return 1 if any(figures["not_finite"].values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
