"""The engines for which a run can be exported, and the command that uses each file."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.export.answers import count_answer_tokens, model_folder
from orchestrator.export.effect import measure_effect
from orchestrator.export.llama_cpp import LLAMA_CPP
from orchestrator.export.logit_bias import (
    MIN_TOKENS_HELP,
    bias_document,
    choose_biases,
    openai_document,
    relative_biases,
)
from orchestrator.export.steering import ExportedSteering
from orchestrator.export.transformers import TRANSFORMERS
from orchestrator.export.vllm import VLLM
from orchestrator.output import OutputError
from orchestrator.results import RunResults
from tasks.gpu.processor import render_processor
from tasks.gpu.processor_template import Parts
from tasks.gpu.sglang_file import FIXED


@dataclass(frozen=True)
class Source:
    """What a file is made of: the steering, the run that found it, and what only some engines need.

    `model` is the folder of the run's model, where it is not that of its settings.  `notify` is given when the effect
    of the file is to be measured, and is told the progress.
    """

    steering: ExportedSteering
    results: RunResults
    model: Path | None = None
    notify: Callable[[str], None] | None = None


@dataclass(frozen=True)
class ExportTarget:
    """An engine: the name of its file, the command that uses a file, and how the text is made.

    `command` has {folder}, {module} and {file} of the file; `min_tokens_help` is as in `Parts`.  `render` raises
    OutputError, and ValueError where the deltas do not fit the labels.
    """

    file_name: str
    command: str
    render: Callable[[Source], str]
    min_tokens_help: str
    is_measured: bool = False

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
    def render(source: Source) -> str:
        one = source.steering
        return render_processor(one.deltas, one.labels, one.clustering, one.descriptions, one.check, parts)

    return ExportTarget(parts.file_name, command, render, parts.min_tokens_help)


def render_openai(source: Source) -> str:
    """The tokens that matter most in the run's answers, within OpenAI's limits."""
    steering, results = source.steering, source.results
    folder = model_folder(results, steering.check, source.model)
    stops = steering.check["stops"] or [int(token) for token in (steering.labels == 0).nonzero()[0]]
    chosen = choose_biases(relative_biases(steering), count_answer_tokens(results, folder, stops))
    effect = measure_effect(results, chosen, source.notify) if source.notify else None
    return openai_document(steering, chosen, results.system_prompt, effect)


CURL = """jq '{{model: "MODEL", messages: [{{role: "user", content: "..."}}], logit_bias}}' {file} | curl -d @- \\
      -H 'Content-Type: application/json' http://127.0.0.1:8000/v1/chat/completions"""

TARGETS: Mapping[str, ExportTarget] = {
    "sglang": processor_target(
        FIXED,
        "PYTHONPATH={folder} python -m sglang.launch_server --model-path MODEL --host 127.0.0.1 "
        "--enable-custom-logit-processor",
    ),
    "vllm": processor_target(VLLM, "PYTHONPATH={folder} vllm serve MODEL --logits-processors {module}:DeltaProcessor"),
    "transformers": processor_target(TRANSFORMERS, "python {file} --verify MODEL"),
    "llama-cpp": processor_target(LLAMA_CPP, "llama-cli -m MODEL.gguf $(python {file} --arguments)"),
    "openai": ExportTarget("openai_logit_bias.json", CURL, render_openai, MIN_TOKENS_HELP, is_measured=True),
    "logit-bias": ExportTarget(
        "logit_bias.json",
        CURL,
        lambda source: bias_document(source.steering, source.results.system_prompt),
        MIN_TOKENS_HELP,
    ),
}


def default_file(folder: Path, target: str, node: str) -> Path:
    """Where the file goes without --output: a folder of its own in the run's."""
    name = TARGETS[target].file_name
    stem = Path(name).stem + (f"_{node}" if node else "")
    return folder / "exports" / f"{stem.replace('-', '_')}{Path(name).suffix}"


def known_target(name: str) -> ExportTarget:
    """Raises: OutputError with the names that there are."""
    if name not in TARGETS:
        raise OutputError(f"--to {name!a} is no engine; the engines are {', '.join(TARGETS)}")
    return TARGETS[name]
