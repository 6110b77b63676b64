"""A generated processor file, loaded for real: the class that SGLang would import steers the embedded target's logits.

The file imports its base class from SGLang, which is not installed here; an empty class takes its place.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from workers.embedded.target.protocol import FILE_CLASS

BASE_MODULE, BASE_CLASS = "sglang.srt.sampling.custom_logit_processor", "CustomLogitProcessor"


@dataclass(frozen=True)
class ProcessorFile:
    """A loaded processor: `sha256` of its file, the name of its `module`, and `steer`.

    `steer` takes logits [rows, vocabulary] and the custom_params of each row, and gives steered logits.
    """

    sha256: str
    module: str
    steer: Callable[[torch.Tensor, list[dict[str, Any] | None]], torch.Tensor]

    def steer_row(self, logits: torch.Tensor, params: dict[str, Any] | None, answer: Sequence[int]) -> torch.Tensor:
        """Of one request, [vocabulary].  As in SGLang, only a request with parameters shows its answer to the file."""
        if params is not None:
            params = {**params, "__req__": SimpleNamespace(output_ids=answer)}
        return self.steer(logits[None], [params])[0]


def load_processor(path: Path) -> ProcessorFile:
    """Import the file at `path` and make its class.  It runs the file's code, so it must come from this worker."""
    _provide_base_class()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return ProcessorFile(hashlib.sha256(path.read_bytes()).hexdigest(), path.stem, getattr(module, FILE_CLASS)())


def _provide_base_class() -> None:
    if importlib.util.find_spec("sglang") is not None:
        return
    parts = BASE_MODULE.split(".")
    for depth in range(1, len(parts) + 1):
        sys.modules.setdefault(".".join(parts[:depth]), ModuleType(".".join(parts[:depth])))
    setattr(sys.modules[BASE_MODULE], BASE_CLASS, object)
