"""What a SGLang server needs to steer all chat completions: the system, its labels, and the plugin (docs/export.md)."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.export.steering import ExportedSteering
from workers import steering as plugin

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FILE = "system.json"
COMMAND = (
    "PYTHONPATH={folder} WHETSTONE_SYSTEM={file} python -m sglang.launch_server --model-path MODEL --host 127.0.0.1"
)


def system_document(steering: ExportedSteering) -> dict[str, Any]:
    """The content of the file that `WHETSTONE_SYSTEM` names; `max_tokens` 0 is no limit."""
    return {
        "name": steering.name,
        "system_prompt": steering.system_prompt,
        "max_tokens": steering.max_tokens,
        "end": "any" if steering.ends is None else "sentence",
        "clustering": steering.clustering,
        "deltas": [steering.deltas[str(cluster)] for cluster in range(len(steering.deltas))],
        "model": steering.check.name,
        "config_sha256": steering.check.config,
        "tokenizer_sha256": steering.check.tokenizer,
    }


def system_text(steering: ExportedSteering) -> str:
    return json.dumps(system_document(steering), indent=2, ensure_ascii=False) + "\n"


def files_beside(steering: ExportedSteering) -> Mapping[str, bytes]:
    """The other files of the same folder, by their paths in it: labels, sentence ends, and the plugin."""
    labels = {f"{steering.clustering}.npy": _npy(steering.labels)}
    if steering.ends is not None:
        labels[f"{steering.clustering}.ends.npy"] = _npy(steering.ends)
    package = Path(plugin.__file__).parent
    code = {f"{plugin.NAME}/{path.name}": path.read_bytes() for path in sorted(package.glob("*.py"))}
    metadata = plugin.distribution_metadata()
    return {**labels, **code, **{name: text.encode() for name, text in metadata.items()}}


def _npy(values: NDArray[np.generic]) -> bytes:
    import numpy as np

    out = io.BytesIO()
    np.save(out, values, allow_pickle=False)
    return out.getvalue()
