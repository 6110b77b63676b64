"""The engines for which a run can be exported, and the command that uses each file."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.export.llama_cpp import LLAMA_CPP
from orchestrator.export.steering import ExportedSteering
from orchestrator.export.transformers import TRANSFORMERS
from orchestrator.export.vllm import VLLM
from orchestrator.output import OutputError
from tasks.gpu.processor import render_processor
from tasks.gpu.processor_template import Parts
from tasks.gpu.sglang_file import FIXED


@dataclass(frozen=True)
class ExportTarget:
    """An engine: the text of its file, and the command that uses the file at a path."""

    parts: Parts
    command: str  # {folder}, {module} and {file} of the file

    def render(self, steering: ExportedSteering) -> str:
        """Raises: ValueError where the deltas do not fit the labels."""
        return render_processor(
            steering.deltas, steering.labels, steering.clustering, steering.descriptions, steering.check, self.parts
        )

    def check_name(self, file: Path) -> None:
        """Raises: OutputError for a name that Python cannot import."""
        if file.suffix != ".py" or not file.stem.isidentifier():
            raise OutputError(f"--output: {file} must be named as a Python module, such as {self.parts.file_name}")

    def command_for(self, file: Path) -> str:
        whole = file.resolve()
        return self.command.format(
            folder=shlex.quote(str(whole.parent)), module=file.stem, file=shlex.quote(str(whole))
        )


TARGETS: Mapping[str, ExportTarget] = {
    "sglang": ExportTarget(
        FIXED,
        "PYTHONPATH={folder} python -m sglang.launch_server --model-path MODEL --host 127.0.0.1 "
        "--enable-custom-logit-processor",
    ),
    "vllm": ExportTarget(VLLM, "PYTHONPATH={folder} vllm serve MODEL --logits-processors {module}:DeltaProcessor"),
    "transformers": ExportTarget(TRANSFORMERS, "python {file} --verify MODEL"),
    "llama-cpp": ExportTarget(LLAMA_CPP, "llama-cli -m MODEL.gguf $(python {file} --arguments)"),
}


def default_file(folder: Path, target: str, node: str) -> Path:
    """Where the file goes without --output: a folder of its own in the run's."""
    name = TARGETS[target].parts.file_name
    stem = Path(name).stem + (f"_{node}" if node else "")
    return folder / "exports" / f"{stem.replace('-', '_')}{Path(name).suffix}"


def known_target(name: str) -> ExportTarget:
    """Raises: OutputError with the names that there are."""
    if name not in TARGETS:
        raise OutputError(f"--to {name!a} is no engine; the engines are {', '.join(TARGETS)}")
    return TARGETS[name]
