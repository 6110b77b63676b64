"""No secret comes into a log."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest

from tasks.common import logs
from tasks.common.logs import SecretError, redact, register_secret, secret
from tasks.store.address import redis_url_of


def test_no_secret_comes_through(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secrets = ["sk-of-the-environment", "password-of-the-broker", "token-of-a-file", "key-that-was-just-read"]
    secrets += ["password-of-a-tracker"]
    (tmp_path / "token").write_text(secrets[2] + "\n")
    monkeypatch.setenv("SOME_API_KEY", secrets[0])
    monkeypatch.setenv("WHETSTONE_REDIS_URL", f"redis://user:{secrets[1]}@host:6379/0")
    monkeypatch.setenv("HF_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"https://user:{secrets[4]}@host/")
    register_secret(secrets[3])
    handler, log = logging.StreamHandler(io.StringIO()), logging.Logger("of.this.test")
    logs.set_formatter(handler)
    log.addHandler(handler)
    for text in secrets:
        log.info("with %s", text)
        try:
            raise RuntimeError(f"HTTP 401: {text} is wrong")
        except RuntimeError:
            log.exception("a call failed")
    said = handler.stream.getvalue()
    assert said.count("with [secret]") == said.count("HTTP 401: [secret] is wrong") == len(secrets)
    assert not [text for text in secrets if text in said]


def test_a_secret_is_what_its_file_holds_and_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for text in ("sk-1", "sk-2"):  # each who asks has the present one, without the line end of `echo`
        (tmp_path / "key").write_text(f"{text}\n")
        assert secret("KEY", {"KEY_FILE": str(tmp_path / "key")}) == text
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("nowhere", ".", "binary"):
        with pytest.raises(SecretError, match=f"^KEY_FILE: {tmp_path / name} "):
            secret("KEY", {"KEY_FILE": str(tmp_path / name)})


@pytest.mark.parametrize("url", ["redis://:p4ss-of-the-tcp@host/0", "unix:///run/socket?db=1&password=p4ss-of-socket"])
def test_the_password_in_an_address_is_a_secret(url: str) -> None:
    redis_url_of({"WHETSTONE_REDIS_URL": url})
    assert "p4ss" not in redact(f"cannot reach {url}")
