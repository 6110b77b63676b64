"""The name of an endpoint lasts as long as the endpoint is the same one, and no longer."""

from __future__ import annotations

import dataclasses

import pytest

from tasks.models import Endpoint
from tasks.openai.provider import DEFAULT_BASE_URL, EMBEDDED, NAME_VARIABLE, name_of, url_of

UNNAMED = Endpoint("", "SOME_KEY", 5.0, 1, 10, 1000, 0.0, 0.0, 0.0, 0.0)
OWN = dataclasses.replace(UNNAMED, base_url="http://127.0.0.1:8000/v1")


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", NAME_VARIABLE):
        monkeypatch.delenv(name, raising=False)


def test_an_address_of_ones_own_is_the_name_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere/v1")
    monkeypatch.setenv(NAME_VARIABLE, EMBEDDED)
    assert url_of(OWN) == name_of(OWN) == OWN.base_url


def test_without_one_it_is_the_environments_or_else_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    assert url_of(UNNAMED) == name_of(UNNAMED) == DEFAULT_BASE_URL
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere/v1")
    assert url_of(UNNAMED) == name_of(UNNAMED) == "http://elsewhere/v1"


def test_the_embedded_endpoint_is_the_same_at_every_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME_VARIABLE, EMBEDDED)
    for port in (40001, 40002):
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
        assert url_of(UNNAMED) == f"http://127.0.0.1:{port}/v1"
        assert name_of(UNNAMED) == EMBEDDED
