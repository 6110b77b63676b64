"""What a SGLang server needs to answer as a system does: the system, its labels, and the plugin (docs/export.md)."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.export.steering import ExportedSteering
from tasks.gpu import model_files
from workers import steering as plugin

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FILE = "system.json"
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
