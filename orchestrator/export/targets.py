"""The engines for which a run can be exported, and the command that uses each file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.export import serving
from orchestrator.export.llama_cpp import LLAMA_CPP
from orchestrator.export.logit_bias import FILE, bias_document
from orchestrator.export.steering import ExportedSteering
from orchestrator.export.transformers import TRANSFORMERS
from orchestrator.export.vllm import VLLM
from orchestrator.runs.folder import OutputError
from tasks.gpu.processor import SGLANG, Parts, render_file


@dataclass(frozen=True)
class ExportTarget:
    """An engine: the name of its file, the command that uses a file, and how the text is made.

    `command` has {folder}, {module} and {file} of the file.  `beside` are further files of its folder, by their paths
    in it.
    """

    file_name: str
    command: str
    render: Callable[[ExportedSteering], str]
    beside: Callable[[ExportedSteering], Mapping[str, bytes]] = lambda _: {}

    def check_name(self, file: Path) -> None:
        """Raises: OutputError for a name that Python cannot import."""
        if self.file_name.endswith(".py") and (file.suffix != ".py" or not file.stem.isidentifier()):
            raise OutputError(f"--output: {file} must be named as a Python module, such as {self.file_name}")

    def command_for(self, file: Path) -> str:
        whole = file.resolve()
        return self.command.format(
            folder=shlex.quote(str(whole.parent)), module=file.stem, file=shlex.quote(str(whole))
        )


def processor_target(parts: Parts, command: str) -> ExportTarget:
    def render(one: ExportedSteering) -> str:
        return render_file(parts, one.deltas, one.labels, one.system.clustering, one.descriptions, one.check, one.ends)

    return ExportTarget(parts.file_name, command, render)


CURL = """jq '{{model: "MODEL", messages: [{{role: "user", content: "..."}}], logit_bias}}' {file} | curl -d @- \\
      -H 'Content-Type: application/json' http://127.0.0.1:8000/v1/chat/completions"""

TARGETS: Mapping[str, ExportTarget] = {
    "sglang": processor_target(
        SGLANG,
        "PYTHONPATH={folder} python -m sglang.launch_server --model-path MODEL --host 127.0.0.1 "
        "--enable-custom-logit-processor --disable-overlap-schedule",
    ),
    "vllm": processor_target(VLLM, "PYTHONPATH={folder} vllm serve MODEL --logits-processors {module}:DeltaProcessor"),
    "transformers": processor_target(TRANSFORMERS, "PYTHONPATH={folder} python PROGRAM.py"),
    "llama-cpp": processor_target(LLAMA_CPP, "PYTHONPATH={folder} python PROGRAM.py"),
    "logit-bias": ExportTarget(FILE, CURL, bias_document),
    "sglang-server": ExportTarget(serving.FILE, serving.COMMAND, serving.system_text, serving.files_beside),
}


def default_file(folder: Path, target: str, name: str) -> Path:
    """Where the file of a system or individual goes without --output: a folder of its own in the run's."""
    file = Path(TARGETS[target].file_name)
    stem = re.sub(r"[^A-Za-z0-9]+", "_", f"{file.stem}_{name}".strip("_"))
    return folder / "exports" / f"{stem}{file.suffix}"
