"""The processor that SGLang imports by reference, where the plugin is not loaded.  Needs torch, numpy and SGLang only.

Its parameters are not checked by SGLang, and an error ends the server.  No error is caught here all the same: text that
was left unsteered without notice would look like the answer of a weak individual.

With overlap scheduling SGLang shows a request's answer without its last token, so "end": "sentence" needs a server with
--disable-overlap-schedule.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor

from .batch import LabelTable, add_deltas, batch_steering
from .request import LABELS_VARIABLE, Steering, check_params

__all__ = ["ClusterBias"]

_table = LabelTable()  # SGLang makes a new instance of the class for every batch
_CHECKED = "__steering__"  # among a request's parameters, beside SGLang's "__req__"


# SGLang is not installed where types are checked, so its class is unknown there.
class ClusterBias(CustomLogitProcessor):  # type: ignore[misc,unused-ignore]
    """Adds to each row of logits [rows, V] the delta of each token's cluster. Parameters: `request.check_params`."""

    def __call__(self, logits: torch.Tensor, custom_param_list: list[dict[str, Any]]) -> torch.Tensor:
        steerings = [_steering(params) for params in custom_param_list]
        answers = [_answer(params) for params in custom_param_list]
        batch = batch_steering(steerings, answers, _table, logits.device)
        if batch is not None:
            add_deltas(logits, batch, batch.states, _table.labels(logits.shape[1], logits.device))
        return logits


def _steering(params: dict[str, Any]) -> Steering:
    if _CHECKED not in params:
        own = {name: value for name, value in params.items() if name != "__req__"}
        params[_CHECKED] = check_params(own, Path(os.environ[LABELS_VARIABLE]))
    steering: Steering = params[_CHECKED]
    return steering


def _answer(params: dict[str, Any]) -> Sequence[int]:
    """The tokens of the request's answer, where its steering depends on them."""
    if _steering(params).classes is None:
        return ()
    from sglang.srt.runtime_context import get_server_args

    if not get_server_args().disable_overlap_schedule:
        raise RuntimeError('"end": "sentence" without the steering plugin needs --disable-overlap-schedule')
    answer: Sequence[int] = params["__req__"].output_ids
    return answer
