"""The identity of a target server: the part of its own report that determines answers, and its weights.

Two servers with equal identities give equal answers to equal requests, as far as their hardware allows: the identity is
part of the key of an answer, by which runs share it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2

from tasks.common.http import OK, fetch
from tasks.gpu.model_files import model_files

TIMEOUT_S = 30.0  # SGLang asks its scheduler for a part of the report
# Fields of SGLang's report that change results.  Ports, paths of logs, sizes that follow from the free memory and the
# seed that is drawn at each start do not, or would make every start another server.
CHANGES_RESULTS = re.compile(
    r"^(engine|version|torch|weights|revision|load_format|context_length|architectures|model_type"
    r"|(tp|dp|pp|ep|attn_cp|moe_\w+)_size)$"
    r"|model_path|tokenizer_path|tokenizer_mode|weight_version|dtype|quant|lora|adapter|attention|backend|sampling"
    r"|speculative|determin|sparsity|fp4|fp8|fp32|override|torch_compile|rl_on_policy|constrained"
)
SAMPLES, SAMPLE_BYTES = 64, 65_536


def read_identity(url: str, api_key: str | None) -> dict[str, Any]:
    """The fields of a server's report that change results."""
    info = _get(url, "/server_info", api_key) | _get(url, "/model_info", api_key)
    return {name: value for name, value in sorted(info.items()) if value is not None and CHANGES_RESULTS.search(name)}


def weights_fingerprint(folder: Path) -> str:
    """A hash of a model's folder: of all small files, and of samples spread over large ones.

    Training changes most numbers of a model, so samples tell two models apart.  Hidden files and readmes do not count.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if not path.is_file() or path.suffix == ".md" or any(part.startswith(".") for part in name.parts):
            continue
        size = path.stat().st_size
        digest.update(f"{name.as_posix()}\0{size}\n".encode())
        offsets: Sequence[int] = range(0, size, SAMPLE_BYTES)
        if size > SAMPLES * SAMPLE_BYTES:
            offsets = [sample * (size - SAMPLE_BYTES) // (SAMPLES - 1) for sample in range(SAMPLES)]
        with path.open("rb") as file:
            for offset in offsets:
                file.seek(offset)
                digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()


def local_weights(model: str) -> str:
    """The fingerprint of a folder, or the commit of a cached Hugging Face id; "" for neither."""
    folder = Path(model)
    if folder.is_dir():
        return f"sha256:{weights_fingerprint(folder)}"
    cached = model_files(model)
    return f"commit:{Path(cached).name}" if cached else ""


def _get(url: str, name: str, api_key: str | None) -> dict[str, Any]:
    try:
        reply = fetch(url, name, TIMEOUT_S, key=api_key)
    except httpx2.HTTPError as error:
        raise OSError(f"{name}: {error}") from error
    if reply.status_code != OK:
        raise OSError(f"{name}: HTTP {reply.status_code}")
    report = reply.json()
    if not isinstance(report, dict):
        raise ValueError(f"{name}: it is not a JSON object")
    return report
