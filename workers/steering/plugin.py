"""Steering as a plugin of SGLang: loaded by its entry point in every process of the server.

SGLang's own path for processors waits for the device in every step, and a processor that raises ends the server.  So
where a request arrives, its parameters are checked, and wrong ones become HTTP 400; where it reaches the scheduler, its
processor is removed, and its deltas go with the batch to the sampler as temperatures do.

Whether an answer's last token ended a sentence is kept on the device by the request's place in SGLang's pool: with
overlap scheduling the host learns of a token one step late.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from sglang.srt.plugins.hook_registry import HookRegistry, HookType

from . import PREFIX_CACHE_VARIABLE
from .batch import Answers, LabelTable, add_deltas, batch_steering, merge_batches
from .farm import CACHES, free_answer, take_listening
from .request import LABELS_VARIABLE, Steering, check_params, is_cluster_bias
from .serving import CHAT, SYSTEM_VARIABLE, Serving, read_system

_table = LabelTable()
_BATCH = "sglang.srt.sampling.sampling_batch_info.SamplingBatchInfo"


def register() -> None:
    """Called by SGLang's `load_plugins`. The names are the same from 0.5.16 to 0.5.23."""
    manager = "sglang.srt.managers.tokenizer_manager.TokenizerManager"
    HookRegistry.register(f"{manager}._validate_one_request", validate_request, HookType.AROUND)
    HookRegistry.register("sglang.srt.managers.schedule_batch.Req.__init__", attach_steering, HookType.AFTER)
    HookRegistry.register(f"{_BATCH}.adjusted_from_schedule_batch", begin_batch, HookType.AFTER)
    HookRegistry.register(f"{_BATCH}.adjusted_filter_batch", filter_batch, HookType.AFTER)
    HookRegistry.register(f"{_BATCH}.adjusted_merge_batch", merge_batch, HookType.AFTER)
    HookRegistry.register(f"{_BATCH}.copy_for_forward", copy_batch, HookType.AFTER)
    HookRegistry.register("sglang.srt.model_executor.model_runner.ModelRunner.sample", follow_answers, HookType.AROUND)
    HookRegistry.register("sglang.srt.layers.sampler.Sampler._preprocess_logits", steer, HookType.BEFORE)
    if (listening := take_listening(os.environ)) is not None:
        HookRegistry.register("uvicorn.server.Server.startup", listening.start_up, HookType.AROUND)
        warm_up = "sglang.srt.entrypoints.http_server._wait_and_warmup"
        HookRegistry.register(warm_up, listening.end_warm_up, HookType.AFTER)
    if path := os.environ.get(SYSTEM_VARIABLE):
        serving = Serving(read_system(Path(path), _labels_folder()))
        HookRegistry.register(f"{manager}.__init__", serving.check_model, HookType.AFTER)
        HookRegistry.register(f"{CHAT}._convert_to_internal_request", serving.steer_chat, HookType.BEFORE)
    for cache in CACHES if os.environ.get(PREFIX_CACHE_VARIABLE) == "prompts" else ():
        HookRegistry.register(f"{cache}.cache_finished_req", free_answer, HookType.AROUND)


def validate_request(original: Callable[..., None], manager: Any, request: Any, input_ids: list[int]) -> None:
    """Refuse bad parameters with a ValueError, which the server answers as HTTP 400."""
    string = getattr(request, "custom_logit_processor", None)
    if not is_cluster_bias(string):
        return original(manager, request, input_ids)
    if manager.server_args.speculative_algorithm:
        raise ValueError("steering does not work with speculative decoding, which samples elsewhere")
    steering = _checked(request.sampling_params or {})
    if len(steering.labels) > manager.model_config.vocab_size:
        raise ValueError(f"{len(steering.labels)} labels do not fit a vocabulary of {manager.model_config.vocab_size}")
    # SGLang refuses any processor without --enable-custom-logit-processor; this one is never un-pickled.
    request.custom_logit_processor = None
    try:
        return original(manager, request, input_ids)
    finally:
        request.custom_logit_processor = string


def attach_steering(_: None, request: Any, *args: Any, **options: Any) -> None:
    """Keep the checked deltas with a request that has reached the scheduler, and remove its processor."""
    request.whetstone_steering = None
    if is_cluster_bias(request.custom_logit_processor):
        request.whetstone_steering = _checked({"custom_params": request.sampling_params.custom_params})
        request.custom_logit_processor = None


def begin_batch(_: None, info: Any, batch: Any, vocab_size: int) -> None:
    """Called when prompts are to be read; those of requests that had to give their memory back have answers already."""
    steerings = [request.whetstone_steering for request in batch.reqs]
    answers = [request.output_ids for request in batch.reqs]
    info.whetstone_batch = batch_steering(steerings, answers, _table, torch.device(info.device))


def filter_batch(_: None, info: Any, keep_indices: list[int], keep_indices_device: torch.Tensor) -> None:
    batch = getattr(info, "whetstone_batch", None)
    if batch is not None:
        info.whetstone_batch = batch.select(keep_indices_device)


def merge_batch(_: None, info: Any, other: Any) -> None:
    """Called when the temperatures are already those of both batches, and so is the batch's length."""
    first, second = getattr(info, "whetstone_batch", None), getattr(other, "whetstone_batch", None)
    info.whetstone_batch = merge_batches(first, len(info) - len(other), second, len(other))


def copy_batch(copied: Any, info: Any) -> None:
    copied.whetstone_batch = getattr(info, "whetstone_batch", None)


def follow_answers(
    original: Callable[..., torch.Tensor], runner: Any, logits_output: Any, forward_batch: Any
) -> torch.Tensor:
    """Around the choice of the next token of each row: the states of the answers before it, and after it."""
    info = forward_batch.sampling_info
    batch = getattr(info, "whetstone_batch", None)
    if batch is None:
        return original(runner, logits_output, forward_batch)
    logits, places = logits_output.next_token_logits, forward_batch.req_pool_indices
    answers = getattr(runner, "whetstone_answers", None)
    if answers is None:
        answers = Answers(len(runner.req_to_token_pool.req_to_token), logits.device)
        runner.whetstone_answers = answers
    if not forward_batch.forward_mode.is_decode():
        answers.begin(places, batch)
    info.whetstone_states = answers.states(places)
    tokens = original(runner, logits_output, forward_batch)
    answers.add(places, tokens, batch, _table.classes(logits.shape[1], logits.device))
    return tokens


def steer(sampler: Any, logits: torch.Tensor, sampling_info: Any) -> None:
    batch = getattr(sampling_info, "whetstone_batch", None)
    if batch is not None:
        labels = _table.labels(logits.shape[1], logits.device)
        add_deltas(logits, batch, getattr(sampling_info, "whetstone_states", batch.states), labels)


def _checked(sampling_params: dict[str, Any]) -> Steering:
    custom_params = sampling_params.get("custom_params")
    if isinstance(custom_params, dict):  # SGLang adds the request itself to the parameters
        custom_params = {key: value for key, value in custom_params.items() if key != "__req__"}
    return check_params(custom_params, _labels_folder())


def _labels_folder() -> Path:
    """Where its variable is not set, the labels are beside the system."""
    return Path(os.environ.get(LABELS_VARIABLE) or Path(os.environ.get(SYSTEM_VARIABLE, "")).parent)
