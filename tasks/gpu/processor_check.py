"""Whether a model is the one that a processor was made for: its files, and the answers that it gives.

The text of this module behind its imports is part of every generated file (`tasks.gpu.processor_template`), so it needs
the standard library only, of Python 3.10.  A check is JSON:

    {"name": "...", "config": "<sha256>", "tokenizer": "<sha256>", "stops": [2], "min_new_tokens": 0,
     "answers": [{"prompt": [token ids], "text": "...", "tokens": 32}, ...]}

`answers` are greedy and steered, and none ended before `min_new_tokens`.  `tokens` is how many are asked for; the text
goes on where the model would have.
"""

import hashlib
import json
import os
import pathlib
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any

KEY_VARIABLE = "SERVER_API_KEY"
TIMEOUT_S = 300.0
EQUAL_SHARE = 0.75  # another batch or GPU changes single answers of a model, another model changes nearly all
NOT_OF_THE_MODEL = ("_name_or_path", "transformers_version", "dtype", "torch_dtype", "truncation", "padding")
Ask = Callable[[list[int], int, int, list[int]], str]
# prompt, least and most new tokens, ids that end an answer: the answer's text


class CannotAsk(Exception):
    """The server or the folder cannot be checked; says why."""


def model_hashes(folder: str) -> dict[str, str]:
    """sha256 of what a folder's configuration and tokenizer say, "" for what it lacks.

    The program that saved them, the dtype and the limits of a prompt do not count.
    """

    def digest(*names: str) -> str:
        paths = [pathlib.Path(folder) / name for name in names]
        if not all(path.is_file() for path in paths):
            return ""
        return hashlib.sha256(b"".join(map(_canonical, paths))).hexdigest()

    tokenizer = digest("tokenizer.json") or digest("tokenizer.model") or digest("vocab.json", "merges.txt")
    return {"config": digest("config.json"), "tokenizer": tokenizer}


def _canonical(path: pathlib.Path) -> bytes:
    content = path.read_bytes()
    if path.suffix != ".json":
        return content
    values = {key: value for key, value in json.loads(content).items() if key not in NOT_OF_THE_MODEL}
    return json.dumps(values, sort_keys=True).encode()


def differing_files(check: Mapping[str, Any], folder: str) -> list[str]:
    """Which of configuration and tokenizer are known on both sides, and not the same."""
    found = model_hashes(folder)
    return [part for part in ("config", "tokenizer") if check[part] and found[part] and check[part] != found[part]]


def is_same_answer(expected: str, text: str) -> bool:
    """Whether `text` is how `expected` begins: what was asked for may have fewer tokens."""
    text = text.strip().rstrip("\ufffd")  # a character whose last bytes are in the next token
    return expected.strip().startswith(text) and bool(text or not expected.strip())


def server_of(url: str, extra: Mapping[str, Any]) -> tuple[Ask, str]:
    """How to ask a server of SGLang's or OpenAI's protocol, and the path or name of the model that it reports.

    `extra` goes with each request: what selects the steering.  Raises: CannotAsk.
    """
    url = url.rstrip("/").removesuffix("/v1")
    info = fetch_json(url, "/model_info") or fetch_json(url, "/get_model_info")
    if isinstance(info, dict):

        def generate(prompt: list[int], min_tokens: int, max_tokens: int, stops: list[int]) -> str:
            sampling = {"temperature": 0, "max_new_tokens": max_tokens, "stop_token_ids": stops}
            sampling |= {"min_new_tokens": min_tokens} if min_tokens else {}
            body = {"input_ids": prompt, "sampling_params": sampling, **extra}
            return str(_part(fetch_json(url, "/generate", body), url, "text"))

        return generate, str(info.get("model_path", ""))
    model = _part(fetch_json(url, "/v1/models"), url, "data", 0)
    name = _part(model, url, "id")

    def complete(prompt: list[int], min_tokens: int, max_tokens: int, stops: list[int]) -> str:
        body = {"model": name, "prompt": prompt, "temperature": 0, "max_tokens": max_tokens}
        body |= {"min_tokens": min_tokens} if min_tokens else {}
        body |= {"stop_token_ids": stops, **extra}
        return str(_part(fetch_json(url, "/v1/completions", body), url, "choices", 0, "text"))

    return complete, str(model.get("root") or name)


def _part(reply: Any, url: str, *path: str | int) -> Any:
    """What is at this path of a reply.  Raises: CannotAsk."""
    if reply is None:
        raise CannotAsk(f"{url} has neither the routes of SGLang nor those of OpenAI")
    part = reply
    for key in path:
        try:
            part = part[key]
        except (LookupError, TypeError):
            raise CannotAsk(f"{url} replies without {key!r}: {json.dumps(reply):.200}") from None
    return part


def fetch_json(url: str, path: str, body: object = None) -> Any:
    """A reply as JSON; None where there is no such route.  Raises: CannotAsk."""
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get(KEY_VARIABLE):
        headers["Authorization"] = f"Bearer {key}"
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(url + path, data, headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        hint = f"; {KEY_VARIABLE} holds the key to send" if error.code in (401, 403) else ""
        raise CannotAsk(f"{url}{path}: HTTP {error.code}{hint}: {error.read(300).decode(errors='replace')}") from None
    except (OSError, ValueError) as error:
        raise CannotAsk(f"{url}{path}: {error}") from None


def verify(check: Mapping[str, Any], where: str, ask: Ask, folder: str) -> tuple[int, str]:
    """The exit status and the line that says it: 0 for the model that the check is of, 1 for another one.

    `folder` is where its files are, if they are on this machine.  Raises: CannotAsk when nothing can be compared.
    """
    name = check["name"] or "the model that this file was made for"
    if differing := differing_files(check, folder):
        return 1, f"refused: {where} has not {name}: its {' and '.join(differing)} is not the same"
    if not check["answers"]:
        raise CannotAsk("this file holds no answers to compare: it was not written at the end of a run")
    equal = count_equal(check["answers"], check["min_new_tokens"], check["stops"], ask)
    counts = f"{equal} of {len(check['answers'])} answers are the same"
    if equal < EQUAL_SHARE * len(check["answers"]):
        return 1, f"refused: {where} has not {name}, or does not steer it with this file: {counts}"
    known = model_hashes(folder) == {part: check[part] for part in ("config", "tokenizer")}
    files = "its configuration and tokenizer are the same, and " if known else ""
    return 0, f"accepted: {where} has {name}: {files}{counts}"


def count_equal(answers: Sequence[Mapping[str, Any]], min_tokens: int, stops: list[int], ask: Ask) -> int:
    """How many of the answers are given again; none may end before `min_tokens` tokens.  Raises: CannotAsk."""
    return sum(
        is_same_answer(one["text"], ask(one["prompt"], min(min_tokens, one["tokens"]), one["tokens"], stops))
        for one in answers
    )
