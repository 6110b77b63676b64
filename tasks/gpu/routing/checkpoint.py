"""A trajectory's state as bytes, without pickle: a resumed trajectory goes on to the bit."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from tasks.common.validation import CHECKPOINT_BYTES
from tasks.gpu.routing.band import Band
from tasks.gpu.routing.splits import Extraction, SplitState
from tasks.gpu.routing.trajectory_state import TrajectoryState
from tasks.gpu.routing.update import Share

_EDGES = [edge.name for edge in dataclasses.fields(Band)]


def dump_state(state: TrajectoryState) -> bytes:
    """Everything that decides how it goes on.  Random numbers come from the seed and the step, so none is kept."""
    tensors = {"whole": state.whole.value, "first": state.whole.first, "second": state.second}
    flags: dict[str, Any] = {}
    for name, split in state.splits.items():
        tensors |= {f"{name}/routed": split.routed.value, f"{name}/first": split.routed.first}
        for place in ("extraction", "before"):
            tensors |= _extraction_tensors(f"{name}/{place}", getattr(split, place))
        flags[name] = {flag: getattr(split, flag) for flag in ("first_gap", "frozen", "has_routed")}
    record = {
        "step": state.step,
        "updates": state.updates,
        "splits": flags,
        "rows": list(state.rows),
    }
    text = json.dumps(record, allow_nan=False, separators=(",", ":")).encode()
    tensors["record"] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    # A copy of each: tensors that share memory are refused.
    data = save({name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()})
    if len(data) > CHECKPOINT_BYTES:
        raise ValueError(f"a checkpoint of {len(data):,} bytes; {CHECKPOINT_BYTES:,} are allowed: name fewer splits")
    return data


def load_state(data: bytes, device: torch.device) -> TrajectoryState:
    tensors = load(data)
    record = json.loads(tensors["record"].numpy().tobytes())
    tensors = {name: tensor.to(device) for name, tensor in tensors.items()}
    splits = {
        name: SplitState(
            Share(tensors[f"{name}/routed"], tensors[f"{name}/first"]),
            _extraction(f"{name}/extraction", tensors),
            _extraction(f"{name}/before", tensors),
            **flags,
        )
        for name, flags in record["splits"].items()
    }
    whole = Share(tensors["whole"], tensors["first"])
    return TrajectoryState(record["step"], record["updates"], whole, tensors["second"], splits, tuple(record["rows"]))


def _extraction_tensors(name: str, extraction: Extraction | None) -> dict[str, Tensor]:
    if extraction is None:
        return {}
    edges = torch.stack([getattr(extraction.band, edge) for edge in _EDGES])
    centre = {} if extraction.centre is None else {f"{name}/centre": extraction.centre}
    return {f"{name}/direction": extraction.direction, f"{name}/band": edges, **centre}


def _extraction(name: str, tensors: dict[str, Tensor]) -> Extraction | None:
    if f"{name}/direction" not in tensors:
        return None
    return Extraction(
        tensors[f"{name}/direction"], Band(*tensors[f"{name}/band"].unbind()), tensors.get(f"{name}/centre")
    )
