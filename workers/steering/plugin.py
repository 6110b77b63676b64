"""Steering as a plugin of SGLang: loaded by its entry point in every process of the server.

SGLang's own path for processors waits for the device in every step and whenever a request leaves the batch, and ends
the server when a processor raises.  So the plugin takes our requests out of that path at both ends: where a request
comes in, its parameters are checked, and what is wrong becomes an HTTP 400; where it meets the scheduler, its
processor is taken off and its deltas follow the batch instead, beside temperatures, to the sampler.

A server in which the plugin is not loaded still finds `processor.ClusterBias` under the same name.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from sglang.srt.plugins.hook_registry import HookRegistry, HookType

from .bank import LabelTable
from .kernel import add_deltas
from .parameters import LABELS_VARIABLE, Steering, check
from .reference import is_ours
from .rows import joined, rows_of

_bank = LabelTable()
_BATCH = "sglang.srt.sampling.sampling_batch_info.SamplingBatchInfo"


def register() -> None:
    """Called by SGLang's `load_plugins`. The names are the same from 0.5.16 to 0.5.23."""
    manager = "sglang.srt.managers.tokenizer_manager.TokenizerManager"
    HookRegistry.register(f"{manager}._validate_one_request", validate, HookType.AROUND)
    HookRegistry.register("sglang.srt.managers.schedule_batch.Req.__init__", take_over, HookType.AFTER)
    HookRegistry.register(f"{_BATCH}.adjusted_from_schedule_batch", begin_batch, HookType.AFTER)
    HookRegistry.register(f"{_BATCH}.adjusted_filter_batch", filter_batch, HookType.AFTER)
    HookRegistry.register(f"{_BATCH}.adjusted_merge_batch", merge_batch, HookType.AFTER)
    HookRegistry.register(f"{_BATCH}.copy_for_forward", copy_batch, HookType.AFTER)
    HookRegistry.register("sglang.srt.layers.sampler.Sampler._preprocess_logits", steer, HookType.BEFORE)


def validate(original: Callable[..., None], manager: Any, request: Any, input_ids: list[int]) -> None:
    """Refuse bad parameters with a ValueError, which the server answers as HTTP 400."""
    string = getattr(request, "custom_logit_processor", None)
    if not is_ours(string):
        return original(manager, request, input_ids)
    if manager.server_args.speculative_algorithm:
        raise ValueError("steering does not work with speculative decoding, which samples elsewhere")
    steering = _steering((request.sampling_params or {}).get("custom_params"))
    if len(steering.labels) > manager.model_config.vocab_size:
        raise ValueError(f"{len(steering.labels)} labels do not fit a vocabulary of {manager.model_config.vocab_size}")
    # Ours is never un-pickled, so it needs no leave from --enable-custom-logit-processor.
    request.custom_logit_processor = None
    try:
        return original(manager, request, input_ids)
    finally:
        request.custom_logit_processor = string


def take_over(_: None, request: Any, *args: Any, **options: Any) -> None:
    """A request has come to the scheduler: its steering is ours from here on."""
    request.whetstone_steering = None
    if is_ours(request.custom_logit_processor):
        request.whetstone_steering = _steering(request.sampling_params.custom_params)
        request.custom_logit_processor = None


def begin_batch(_: None, info: Any, batch: Any, vocab_size: int) -> None:
    steerings = [request.whetstone_steering for request in batch.reqs]
    info.whetstone_rows = rows_of(steerings, _bank, torch.device(info.device))


def filter_batch(_: None, info: Any, keep_indices: list[int], keep_indices_device: torch.Tensor) -> None:
    rows = getattr(info, "whetstone_rows", None)
    if rows is not None:
        info.whetstone_rows = rows.select(keep_indices_device)


def merge_batch(_: None, info: Any, other: Any) -> None:
    """Called when the temperatures are already those of both batches, by which a batch knows its length."""
    mine, theirs = getattr(info, "whetstone_rows", None), getattr(other, "whetstone_rows", None)
    info.whetstone_rows = joined(mine, len(info) - len(other), theirs, len(other))


def copy_batch(copied: Any, info: Any) -> None:
    copied.whetstone_rows = getattr(info, "whetstone_rows", None)


def steer(sampler: Any, logits: torch.Tensor, sampling_info: Any) -> None:
    rows = getattr(sampling_info, "whetstone_rows", None)
    if rows is not None:
        add_deltas(logits, rows, _bank.labels(logits.shape[1], logits.device))


def _steering(custom_params: Any) -> Steering:
    # SGLang puts the request itself among the parameters once it has one.
    if isinstance(custom_params, dict):
        custom_params = {key: value for key, value in custom_params.items() if key != "__req__"}
    return check(custom_params, Path(os.environ.get(LABELS_VARIABLE, "")))
