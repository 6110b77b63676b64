"""A report names who answered: whatever model the settings ask for, at the embedded endpoint it is the rules."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from orchestrator.settings import load_settings, make_run
from tasks.models import Run
from tasks.openai import calls, merge
from tasks.openai.calls import ReplyCounter, make_ask
from tasks.openai.judge import verdict_record
from tasks.openai.provider import RULES
from tasks.store.store import Store

ROOT = Path(__file__).parents[3]
SCRATCHPADS = merge.Parent("short is good", 0.5), merge.Parent("long is good", 0.4)


@pytest.fixture
def run(store: Store, service: Any, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run that asks for models by name, at an address that is the rules'."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("WHETSTONE_REDIS_URL", valkey_url)
    monkeypatch.setenv("KEY_OF_THIS_TEST", service.key)
    settings = load_settings(Path("configs/embedded.config"), {"REFLECTOR_MODEL": "large", "JUDGE_MODEL": "small"})
    made = make_run(settings, "answered")
    endpoint = dataclasses.replace(made.endpoint, base_url=service.url, api_key_env="KEY_OF_THIS_TEST")
    store.put_run(made := dataclasses.replace(made, endpoint=endpoint))
    return made


def test_the_reflector_is_named_by_who_replied(store: Store, run: Run) -> None:
    ask = make_ask(calls.client_for(store, run.id, run.endpoint), run.reflector, "merge", merge.SCHEMA, "a-call")

    merge.merge(ask, *SCRATCHPADS, calls.prompt_logger(store, run.id, "merge"))

    assert store.providers(run.id, "reflector") == [RULES]
    assert f"# answered by: {RULES}\n" in store.prompts(run.id)["merge.txt"]
    assert store.providers(run.id, "judge") == []


@pytest.mark.parametrize(("answer", "by"), [("It is not.", RULES), ("", "")])
def test_a_verdict_says_who_reached_it(store: Store, run: Run, answer: str, by: str) -> None:
    client = calls.client_for(store, run.id, run.endpoint)

    verdict: dict[str, Any] = verdict_record(
        client, run.judge, "a-call", ("Is it?", "No, it is not.", answer), ReplyCounter()
    )

    assert verdict["by"] == by
