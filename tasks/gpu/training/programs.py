"""The world of the programming problems on a model of Hugging Face, from what a job is given."""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import torch

from tasks.gpu.prompt import answer_ends
from tasks.gpu.routing.adapter import Adapter
from tasks.gpu.routing.causal_lm import load_causal_lm
from tasks.gpu.routing.programs import ChatCodec, ProgramsSettings, ProgramsWorld, evaluated
from tasks.gpu.routing.row_gradients import PolicyRows
from tasks.gpu.routing.static_decoding import StaticSampler
from tasks.gpu.training.worlds import TrainedWorld, WorldGiven, bases_of, weights_hash
from tasks.routing.grading import grading_pool
from tasks.routing.pairs import parse_pairs
from tasks.routing.pool import PoolRow
from tasks.routing.problems import parse_problems

ROWS_AT_ONCE = 8
_OPENED = ExitStack()  # sandboxes, which end with this process
atexit.register(_OPENED.close)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def program_world(given: WorldGiven) -> TrainedWorld:
    from transformers import AutoTokenizer

    deterministic = given.model.get("deterministic", False)
    if deterministic:  # read when CUDA's library of matrices is first used
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    tokenizer = AutoTokenizer.from_pretrained(given.model_folder, trust_remote_code=False)
    dtype = DTYPES[given.model["dtype"]]
    model = load_causal_lm(Path(given.model_folder), given.device, dtype, answer_ends(tokenizer))
    problems = parse_problems(given.data["problems"], "problems")
    pairs, placebo = (
        parse_pairs(given.data[name], name, problems) if name in given.data else []
        for name in ("pairs", "placebo_pairs")
    )
    training = given.training
    settings = ProgramsSettings(
        prompts=training["prompts"],
        modes=tuple(training["modes"]),
        plain_share=training["plain_share"],
        teacher_rows=training["teacher_rows"],
        levels=tuple(training["levels"]),
    )
    pool = [PoolRow(**row) for row in given.teacher]
    bases, worst, computed = bases_of(model, given)
    grading = _OPENED.enter_context(grading_pool())
    world = ProgramsWorld(settings, ChatCodec(tokenizer), grading, problems, pairs, placebo, pool)
    asked = evaluated(world)
    adapter = Adapter(model, bases)
    sampler = StaticSampler(model, adapter) if given.device == "cuda" else None
    policy = PolicyRows(model, adapter, ROWS_AT_ONCE, sampler=sampler, deterministic=deterministic)
    return TrainedWorld(policy, world, asked, asked.held_out, partial(weights_hash, model), worst, computed)
