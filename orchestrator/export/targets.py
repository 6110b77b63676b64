"""What a system is exported to: the file of each engine, and the command that uses it (`orchestrator export`).

Each engine has a processor file, a list of biases for servers that take `logit_bias` in a request, or what a SGLang
server needs to answer all requests as the system does: the system, its labels, and the plugin (docs/export.md).
"""

from __future__ import annotations

import io
import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.export.engines import LLAMA_CPP, TRANSFORMERS, VLLM
from orchestrator.export.steering import ExportedSteering
from orchestrator.runs.folder import OutputError
from tasks.gpu import model_files
from tasks.gpu.processor import SGLANG, Parts, render_file
from workers import steering as plugin

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SYSTEM_FILE = "system.json"
COMMAND = (
    "PYTHONPATH={folder} WHETSTONE_SYSTEM={file} python -m sglang.launch_server --model-path MODEL --host 127.0.0.1"
)


def system_text(steering: ExportedSteering) -> str:
    """The content of the file that `WHETSTONE_SYSTEM` names; `deltas` are empty for a system prompt alone."""
    system = steering.system
    values = {
        "name": system.name,
        "kind": system.kind,
        "system_prompt": system.system_prompt,
        "deltas": system.deltas,
        "clustering": system.clustering,
        "end": "any" if steering.ends is None else "sentence",
        "model": {**asdict(steering.check), "weights": steering.weights},
    }
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def files_beside(steering: ExportedSteering) -> Mapping[str, bytes]:
    """The other files of the same folder, by their paths in it: labels, sentence ends, and the plugin."""
    arrays = {".npy": steering.labels if steering.system.deltas else None, ".ends.npy": steering.ends}
    labels = {f"{steering.system.clustering}{end}": _npy(one) for end, one in arrays.items() if one is not None}
    sources = (*sorted(Path(plugin.__file__).parent.glob("*.py")), Path(model_files.__file__))
    code = {f"{plugin.NAME}/{path.name}": path.read_bytes() for path in sources}
    metadata = plugin.distribution_metadata()
    return {**labels, **code, **{name: text.encode() for name, text in metadata.items()}}


def _npy(values: NDArray[np.generic]) -> bytes:
    import numpy as np

    out = io.BytesIO()
    np.save(out, values, allow_pickle=False)
    return out.getvalue()


USE = (
    'send "logit_bias" with each request, to a server of OpenAI\'s protocol that has this model and takes so many '
    "biases (OpenAI itself takes at most 300 tokens, each with a bias from -100 to 100)"
)


def bias_document(steering: ExportedSteering) -> str:
    """The text of a JSON file with the biases of all tokens.

    Raises: OutputError where the end of a turn is raised after sentence ends only.
    """
    import numpy as np

    if steering.ends is not None and steering.system.deltas[0]:
        raise OutputError(
            "a list of biases acts everywhere, and this end of turn is raised after sentence ends only: "
            "export to sglang, vllm, transformers or llama-cpp"
        )
    biases = steering.biases.astype(np.float64)
    values, counts = np.unique(biases, return_counts=True)
    relative = biases - values[counts.argmax()]
    listed = {str(token): round(float(relative[token]), 9) for token in relative.nonzero()[0]}
    check = steering.check
    about = {
        "use": USE,
        "model": check.name,
        "config_sha256": check.config,
        "tokenizer_sha256": check.tokenizer,
        "system": steering.system.name,
        "system_prompt": steering.system.system_prompt,
        "tokens": len(listed),
        "clustering": steering.system.clustering,
    }
    return f'{json.dumps({"about": about}, indent=2)[:-2]},\n  "logit_bias": {json.dumps(listed)}\n}}\n'


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
    "logit-bias": ExportTarget("logit_bias.json", CURL, bias_document),
    "sglang-server": ExportTarget(SYSTEM_FILE, COMMAND, system_text, files_beside),
}


def default_file(folder: Path, target: str, name: str) -> Path:
    """Where the file of a system or individual goes without --output: a folder of its own in the run's."""
    file = Path(TARGETS[target].file_name)
    stem = re.sub(r"[^A-Za-z0-9]+", "_", f"{file.stem}_{name}".strip("_"))
    return folder / "exports" / f"{stem}{file.suffix}"
