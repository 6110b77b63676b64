"""The first answer: which model is steered, and what answers for it."""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.init.asking import WrongAnswer
from orchestrator.settings.value_checks import server_address
from tasks.store.address import ENVIRONMENT_VARIABLE

EMBEDDED = "embedded"
HUB = "https://huggingface.co"
CHECK_S = 5.0
SMALL_BYTES = 2e9
"""Weights up to this size can be computed on a CPU."""
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


@dataclass(frozen=True)
class ModelChoice:
    """`options` are settings as a person types them; `about` says what was found."""

    options: Mapping[str, str]
    about: str

    @property
    def is_on_cpu(self) -> bool:
        return self.options["TARGET_ENGINE"] == EMBEDDED


def read_model(text: str) -> ModelChoice:
    """ "embedded", a folder, a Hugging Face id, or one of these and @URL of a running SGLang server.

    Raises: WrongAnswer when there is no such model.
    """
    if text == EMBEDDED:
        return ModelChoice(_on_cpu(EMBEDDED), "SmolLM2-135M-Instruct, on this CPU")
    name, at, url = text.rpartition("@")
    model = os.path.expanduser(name if at else text)
    if not model:
        raise WrongAnswer("name a model: embedded, a folder, or an id such as Qwen/Qwen2.5-1.5B-Instruct")
    if model == EMBEDDED:
        raise WrongAnswer("embedded has no address: behind @ stands that of an SGLang server, before it its model")
    about, size = _folder(Path(model)) if Path(model).is_dir() else _hub(model)
    if at:
        try:
            server_address(url)
        except ValueError as error:
            raise WrongAnswer(str(error)) from None
        return ModelChoice({**_on_gpu(model), "FARM": "embedded", "SGLANG_URL": url}, f"{about}, at {url}")
    if shutil.which("nvidia-smi") is not None:
        return ModelChoice({**_on_gpu(model), "FARM": "embedded"}, f"{about}, with SGLang on this machine's GPU")
    if size is not None and size <= SMALL_BYTES:
        return ModelChoice(_on_cpu(model), f"{about}, on this CPU")
    farm = os.environ.get(ENVIRONMENT_VARIABLE)
    where = "the farm of WHETSTONE_REDIS_URL" if farm else "the workers at CONFIG_REDIS_URL"
    return ModelChoice({**_on_gpu(model), "FARM": "external"}, f"{about}, with SGLang on {where}: there is no GPU here")


def _on_cpu(model: str) -> dict[str, str]:
    return {
        "TARGET_MODEL": model, "TARGET_ENGINE": EMBEDDED, "DEVICE": "cpu", "FARM": "embedded", "GPU_SLOTS": "8",
        "TARGET_CONCURRENCY": "64", "SGLANG_ARGS": "--rows 32", "TARGET_MAX_NEW_TOKENS": "96",
    }  # fmt: skip


def _on_gpu(model: str) -> dict[str, str]:
    return {
        "TARGET_MODEL": model, "TARGET_ENGINE": "sglang", "DEVICE": "cuda", "GPU_SLOTS": "64",
        "TARGET_CONCURRENCY": "1024", "TARGET_MAX_NEW_TOKENS": "512",
    }  # fmt: skip


def _folder(path: Path) -> tuple[str, float]:
    """What is in a folder, and the bytes of its weights."""
    if not (path / "config.json").is_file():
        raise WrongAnswer(f"{path} has no config.json: it holds no model")
    if not _has_chat_template(path):
        raise WrongAnswer(f"{path} has no chat template: use an instruction-tuned model")
    size = sum(file.stat().st_size for file in path.glob("*.safetensors"))
    if not size:
        raise WrongAnswer(f"{path} has no weights (*.safetensors)")
    return f"a folder with {size / 1e9:.1f} GB of weights", size


def _has_chat_template(path: Path) -> bool:
    if (path / "chat_template.jinja").is_file():
        return True
    try:
        return bool(json.loads((path / "tokenizer_config.json").read_text("utf-8")).get("chat_template"))
    except (OSError, ValueError, AttributeError):
        return False


def _hub(model: str) -> tuple[str, None]:
    """Whether Hugging Face, or the cache of this machine, has the model."""
    if not _HUB_ID.fullmatch(model):
        near = difflib.get_close_matches(model.lower(), (EMBEDDED,), cutoff=0.75)
        meant = f"; did you mean {EMBEDDED}?" if near else ""
        raise WrongAnswer(f"{model} is neither a folder nor an id of the form OWNER/NAME{meant}")
    if _is_cached(model):
        return f"{model}, in this machine's cache", None
    if os.environ.get("HF_HUB_OFFLINE", "0") not in ("", "0"):
        return f"{model}, which could not be looked up (HF_HUB_OFFLINE)", None
    import httpx2

    address = f"{os.environ.get('HF_ENDPOINT') or HUB}/{model}/resolve/main/config.json"
    try:
        status = httpx2.head(address, timeout=CHECK_S).status_code
    except httpx2.HTTPError as error:
        return f"{model}, which could not be looked up ({type(error).__name__})", None
    if status in (401, 403, 404):
        raise WrongAnswer(f"Hugging Face has no model {model}, or only with a token: for that one, name its folder")
    is_there = status < 400
    return f"{model}, on Hugging Face" if is_there else f"{model}, which could not be looked up ({status})", None


def _is_cached(model: str) -> bool:
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    return any(hub.glob(f"models--{model.replace('/', '--')}/snapshots/*/config.json"))
