"""Lines that say what they are about, and never a secret."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.common import logs
from tasks.common.logs import SecretError, redact, register_secret, secret
from tasks.store.address import password_in, redis_url_of

Written = Callable[[], list[str]]


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    logger = logging.getLogger("whetstone.of.this.test")
    logger.propagate = False
    logger.setLevel(logging.INFO)
    yield logger
    logger.handlers.clear()
    logs.set_fields({})


def lines_of(log: logging.Logger) -> Written:
    """Have the log written as the environment says; gives what was written."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logs.set_formatter(handler)
    log.addHandler(handler)
    return lambda: stream.getvalue().splitlines()


def test_a_text_line_ends_with_what_it_is_about(log: logging.Logger) -> None:
    written = lines_of(log)
    with logs.fields(run="demo-1", generation=0):
        with logs.fields(child="g0_child3_mut", stage="judge", task=""):
            log.info("asked %d times", 3)
        log.info("sent")
    log.info("over")
    messages = [line.split("INFO whetstone.of.this.test ")[1] for line in written()]
    assert messages == [
        "asked 3 times  run=demo-1 generation=0 child=g0_child3_mut stage=judge",
        "sent  run=demo-1 generation=0",
        "over",
    ]


def test_no_secret_comes_through(log: logging.Logger, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secrets = ["sk-of-the-environment", "password-of-the-broker", "token-of-a-file", "key-that-was-just-read"]
    secrets += ["password-of-a-tracker"]
    (tmp_path / "token").write_text(secrets[2] + "\n")
    monkeypatch.setenv("SOME_API_KEY", secrets[0])
    monkeypatch.setenv("WHETSTONE_REDIS_URL", f"redis://user:{secrets[1]}@host:6379/0")
    monkeypatch.setenv("HF_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"https://user:{secrets[4]}@host/")
    written = lines_of(log)
    register_secret(secrets[3])
    for text in secrets:
        log.info("with %s", text)
        try:
            raise RuntimeError(f"HTTP 401: {text} is wrong")
        except RuntimeError:
            log.exception("a call failed")
    said = "\n".join(written())
    assert said.count("with [secret]") == said.count("HTTP 401: [secret] is wrong") == len(secrets)
    assert not [text for text in secrets if text in said]


def test_a_secret_is_what_its_file_holds(tmp_path: Path) -> None:
    # given a file as `echo` or an editor writes it, with a line end
    (tmp_path / "key").write_text("sk-1\n")
    environment = {"KEY_FILE": str(tmp_path / "key")}

    assert secret("KEY", environment) == "sk-1"

    # when it is changed, then the next who asks has the new one
    (tmp_path / "key").write_text("sk-2\n")
    assert secret("KEY", environment) == "sk-2"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match=r"^KEY_FILE: .*nowhere cannot be read: No such file or directory$"):
        secret("KEY", {"KEY_FILE": str(tmp_path / "nowhere")})
    with pytest.raises(SecretError, match=r"^KEY_FILE: .* cannot be read: Is a directory$"):
        secret("KEY", {"KEY_FILE": str(tmp_path)})
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SecretError, match=r"^KEY_FILE: .*binary is not UTF-8 text$"):
        secret("KEY", {"KEY_FILE": str(tmp_path / "binary")})


@pytest.mark.parametrize("url", ["redis://:p4ss-of-the-tcp@host/0", "unix:///run/socket?db=1&password=p4ss-of-socket"])
def test_the_password_in_an_address_is_a_secret(url: str) -> None:
    redis_url_of({"WHETSTONE_REDIS_URL": url})

    assert password_in(url) not in redact(f"cannot reach {url}")
