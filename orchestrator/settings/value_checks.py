"""Checks of the value of one option.

Each returns its argument, or raises ValueError with a message that continues the option's name.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field
from typing_extensions import TypedDict

from orchestrator.callbacks import names_of
from orchestrator.settings.inputs import parse_selection
from orchestrator.trackers import TRACKERS
from tasks.common.files import unix_path
from tasks.common.named import NAME
from tasks.common.text import missing_placeholders, quote
from tasks.common.validation import parse_json
from tasks.questions import parse_columns

EMBEDDED = "embedded"
"""In place of a model's name or an endpoint's address: those of the embedded farm."""

EXTERNAL = "external"
"""In place of a farm's address: the one in the environment."""

OWN_ARGUMENTS = {
    "--model-path": "is TARGET_MODEL",
    "--host": "is set by Whetstone: a server that a worker starts listens on a Unix socket",
    "--port": "is set by Whetstone: a server that a worker starts listens on a Unix socket",
    "--api-key": "is set by Whetstone: a server that a worker starts gets a key of its own",
    "--tokenizer-worker-num": "must be 1: SGLang checks no key with more, and listens on a port",
    "--enable-http2": "listens on a port: a server that a worker starts listens on a Unix socket",
    "--config": "is set by Whetstone: write the contents of the file as arguments",
    "--speculative-algorithm": "samples without the deltas",
}


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


FILLED = AfterValidator(_filled)
"""A text that is not blank."""


def _folder(path: Path) -> Path:
    if "\0" in str(path):
        raise ValueError(f"{quote(str(path))} is not a path")
    return path


FOLDER = AfterValidator(_folder)
"""The path of a folder, which need not exist."""


def file_or(*words: Path) -> AfterValidator:
    """The path of a file that exists, or one of `words`."""
    return AfterValidator(lambda path: path if path in words else _file(path))


def _file(path: Path) -> Path:
    try:
        if not path.is_file():
            raise ValueError(f"{quote(str(path))} {'is not a file' if path.exists() else 'does not exist'}")
    except OSError as error:  # for example a name that is too long
        raise ValueError(f"{quote(str(path))} is not a file: {error.strerror}") from None
    return path


EXISTING = AfterValidator(lambda path: path if path.is_dir() else _file(path))
"""The path of a file or a folder that exists."""


def placeholders(*names: str) -> AfterValidator:
    """A template that has `{name}` for each of `names`."""

    def check(template: str) -> str:
        if missing := missing_placeholders(template, names):
            raise ValueError(f"lacks the placeholder {' and '.join(missing)}")
        return template

    return AfterValidator(check)


def http_address(url: str) -> str:
    if not _has_form(url, ("http", "https")):
        raise ValueError(f"{quote(_hide_password(url))} is not an address of the form http://HOST:PORT")
    return url


def http_or_embedded(url: str) -> str:
    return url if url == EMBEDDED else http_address(url)


def server_address(url: str) -> str:
    """The address of a target server, which may listen on a Unix socket."""
    path = unix_path(url)
    if path is None:
        return http_address(url)
    if not path.startswith("/"):
        raise ValueError(f"{quote(url)} is not an address of the form unix:/PATH/OF/A/SOCKET")
    return url


def redis_address(url: str) -> str:
    if not _has_form(url, ("redis", "rediss", "unix")):
        raise ValueError(f"{quote(_hide_password(url))} is not an address of the form redis://HOST:PORT/DATABASE")
    return url


def farm_address(text: str) -> str:
    return text if text in (EMBEDDED, EXTERNAL) else redis_address(text)


def optional(check: Callable[[str], str]) -> AfterValidator:
    """`check`, for texts that are not empty."""
    return AfterValidator(lambda text: check(text) if text else text)


def no_password(instead: str) -> AfterValidator:
    """An address without a password; `instead` is where the password belongs."""

    def check(url: str) -> str:
        from tasks.store.client import password_in  # it imports redis, which no help needs

        if password_in(url):
            raise ValueError(f"contains a password, and settings are stored with the run; put it into {instead}")
        return url

    return AfterValidator(check)


def variable_name(name: str) -> str:
    """The name of an environment variable; the error does not repeat what may be a secret."""
    if not (name.isascii() and name.isidentifier()):
        raise ValueError(
            "is not the name of an environment variable; the key belongs into the environment, and its name here"
        )
    return name


def model_name(model: str) -> str:
    """A model's id, or a folder that exists when the text is plainly a path."""
    if model.startswith(("/", "./", "../")) and not Path(model).is_dir():
        raise ValueError(f"{quote(model)} is not a folder")
    return model


def judge_name(name: str) -> str:
    """One of the judges that have names, a function as module:function or file.py:function, or an entry point."""
    if not NAME.fullmatch(name):
        raise ValueError(f"{quote(name)} is neither a judge's name nor of the form module:function")
    return name


def callback_names(text: str) -> str:
    """Names of callbacks, separated by commas (orchestrator/callbacks.py)."""
    for name in text.split(","):
        if not NAME.fullmatch(name.strip()):
            raise ValueError(f"{quote(name.strip())} is neither a callback's name nor of the form module:name")
    return text


def column_names(text: str) -> str:
    parse_columns(text)
    return text


def row_selection(text: str) -> str:
    parse_selection(text)
    return text


class CallParameters(TypedDict, total=False):
    """What is sent with each call of a language model, where it is there."""

    temperature: Annotated[float, Field(ge=0, le=2)]
    top_p: Annotated[float, Field(gt=0, le=1)]
    seed: Annotated[int, Field(ge=0, lt=2**31)]


CallParameters.__pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[attr-defined]  # read by pydantic, unknown to TypedDict


def parse_parameters(text: str) -> CallParameters:
    return parse_json(CallParameters, text)


def call_parameters(text: str) -> str:
    parse_parameters(text)
    return text


def parse_prices(text: str) -> tuple[float | None, float | None, float | None]:
    """US dollars a million tokens of prompt, cached prompt and completion; None for an empty text."""
    if not text.strip():
        return None, None, None
    prompt, cached, completion = map(float, text.split())
    if not all(0 <= price <= 1e6 for price in (prompt, cached, completion)):
        raise ValueError
    return prompt, cached, completion


def price_list(text: str) -> str:
    try:
        parse_prices(text)
    except ValueError:
        raise ValueError(f"{quote(text)} is not three prices from 0 to 1000000") from None
    return text


def tracker_names(text: str) -> str:
    """Names of trackers, separated by commas (orchestrator/trackers)."""
    names = names_of(text)
    for name in names:
        if name not in TRACKERS:
            raise ValueError(f"{quote(name)} is none of the trackers {', '.join(TRACKERS)}")
    if len(set(names)) < len(names):
        raise ValueError(f"{quote(text)} names a tracker twice")
    return text


def server_arguments(text: str) -> str:
    """A command or arguments for SGLang: can be split as a shell would, without arguments that Whetstone adds."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"cannot be split as a shell would: {error}") from None
    for word in words:
        if (name := word.partition("=")[0]) in OWN_ARGUMENTS:
            raise ValueError(f"{name} {OWN_ARGUMENTS[name]}")
    return text


def _has_form(url: str, schemes: Sequence[str]) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in schemes and bool(parts.hostname or (parts.path and "http" not in parts.scheme))


def _hide_password(url: str) -> str:
    before, at, host = url.rpartition("@")
    return before.partition("://")[0] + "://***@" + host if at else url
