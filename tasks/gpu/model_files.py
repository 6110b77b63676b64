"""Which model a folder holds, by the hashes of its files, and the string that names a processor to SGLang.

The text of these functions is part of what is exported (`tasks.gpu.processor`, `orchestrator.export.targets`): it
compares the model that is served with the one that it was made for.  So they need the standard library only, of
Python 3.10.
"""

import hashlib
import json
import pathlib


def model_files(model: str) -> str:
    """The folder with the files of a model, which is a folder or a Hugging Face id in the cache; "" for neither."""
    if pathlib.Path(model).is_dir():
        return model
    try:
        from huggingface_hub import try_to_load_from_cache

        config = try_to_load_from_cache(model, "config.json")
    except (ImportError, ValueError):  # not installed, or no id
        return ""
    return str(pathlib.Path(config).parent) if isinstance(config, str) else ""


def model_hashes(folder: str) -> dict[str, str]:
    """sha256 of what a folder's configuration and tokenizer say, "" for what it lacks.

    The program that saved them, the dtype and the limits of a prompt do not count.
    """
    ignored = ("_name_or_path", "transformers_version", "dtype", "torch_dtype", "truncation", "padding")

    def canonical(path: pathlib.Path) -> bytes:
        content = path.read_bytes()
        if path.suffix != ".json":
            return content
        values = {key: value for key, value in json.loads(content).items() if key not in ignored}
        return json.dumps(values, sort_keys=True).encode()

    def digest(*names: str) -> str:
        paths = [pathlib.Path(folder) / name for name in names]
        if not folder or not all(path.is_file() for path in paths):
            return ""
        return hashlib.sha256(b"".join(map(canonical, paths))).hexdigest()

    tokenizer = digest("tokenizer.json") or digest("tokenizer.model") or digest("vocab.json", "merges.txt")
    return {"config": digest("config.json"), "tokenizer": tokenizer}


def check_same_model(model: str, wanted: dict[str, str]) -> None:
    """Whether a model, a folder or a Hugging Face id, may be the one `wanted`: {"name", "config", "tokenizer"}.

    Raises: ValueError when it is known to be another one.
    """
    found = model_hashes(model_files(model))
    other = [part for part in ("config", "tokenizer") if wanted[part] and found[part] and wanted[part] != found[part]]
    if other:
        raise ValueError(f"{model} is not {wanted['name']}, for which this was made: another {' and '.join(other)}")


def reference(module: str, name: str = "DeltaProcessor") -> str:
    """The value of SGLang's custom_logit_processor that names a class by its module: a pickle without code."""
    pickled = b"\x80\x04c" + f"{module}\n{name}\n".encode() + b"."
    return json.dumps({"callable": pickled.hex()})
