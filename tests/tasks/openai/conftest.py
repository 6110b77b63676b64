"""An endpoint with faults on request, stand-ins for other servers, and clients for them."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from compatible_servers import Server, serving
from rules_server import KEY, RulesServer, rules_server

from orchestrator.settings.kconfig import load_settings
from orchestrator.settings.run import make_run
from tasks.openai.client import OpenAIClient
from tasks.openai.endpoint import Usage
from tasks.openai.limits import Limits
from tasks.openai.prompts import merge_messages
from tasks.openai.reflect import MergedScratchpad
from tasks.openai.reply import Reply
from tasks.plan import Merge
from tasks.records import Endpoint, Reflector, Run
from tasks.task import current_store

ROOT = Path(__file__).parents[3]
MESSAGES = merge_messages(Merge("End earlier.\nIt helped.", 0.75, "Numbers up.", 0.5))
SETTINGS = Reflector("any", temperature=0.0, top_p=1.0, max_completion_tokens=500, seed=1)
ENDPOINT = Endpoint(
    base_url="", api_key_env="KEY_OF_THIS_TEST", timeout_s=10, max_tries=4, requests_per_minute=0, tokens_per_minute=0,
    price_prompt=2.0, price_cached=1.0, price_completion=10.0, budget_usd=0,
)  # fmt: skip


@dataclass
class Caller:
    """A client; `tries` has the usage of each try, None when that is unknown."""

    limits: Limits
    client: OpenAIClient
    tries: list[Usage | None] = field(default_factory=list)

    def ask(self, call_id: str = "", **changes: Any) -> tuple[MergedScratchpad, Reply]:
        """A merge of two scratchpads; `changes` are of the settings."""
        settings, call = dataclasses.replace(SETTINGS, **changes), call_id or uuid.uuid4().hex
        return self.client.ask(MESSAGES, MergedScratchpad, settings, call)


@pytest.fixture(scope="session")
def running_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RulesServer]:
    with rules_server(tmp_path_factory.mktemp("endpoint") / "calls.jsonl") as server:
        yield server


@pytest.fixture
def service(running_service: RulesServer, monkeypatch: pytest.MonkeyPatch) -> RulesServer:
    """The endpoint without faults, and its key in the environment."""
    monkeypatch.setenv("KEY_OF_THIS_TEST", KEY)
    running_service.fail("")
    return running_service


@pytest.fixture
def embedded_run(service: RulesServer, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """The run of the embedded configuration, at this endpoint; the tasks of this process find the store."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("WHETSTONE_REDIS_URL", valkey_url)
    current_store.cache_clear()
    limits = {"OPENAI_CONTEXT_TOKENS": "0", "TARGET_MAX_NEW_TOKENS": "512"}
    run = make_run(load_settings(Path("configs/embedded.config"), limits), "a-run")
    address = {"base_url": service.url, "api_key_env": "KEY_OF_THIS_TEST", "tokens_per_minute": 0}
    yield dataclasses.replace(run, endpoint=dataclasses.replace(run.endpoint, **address))
    current_store.cache_clear()


@pytest.fixture
def call_as(service: RulesServer) -> Callable[..., Caller]:
    """A function that creates a caller; keyword arguments change the `Endpoint`."""

    def make(**changes: Any) -> Caller:
        endpoint = dataclasses.replace(ENDPOINT, **{"base_url": service.url} | changes)
        limits = Limits(endpoint)
        caller = Caller(limits, OpenAIClient(endpoint, limits))
        settle = limits.settle

        def record(call: str, model: str, usage: Usage | None) -> None:
            settle(call, model, usage)
            caller.tries.append(usage)

        limits.settle = record  # type: ignore[method-assign]
        return caller

    return make


@pytest.fixture
def start() -> Iterator[Callable[[Server], Server]]:
    with ExitStack() as servers:
        yield lambda server: servers.enter_context(serving(server))


@pytest.fixture
def answered(call_as: Callable[..., Caller], start: Callable[[Server], Server]) -> Callable[..., Caller]:
    """A function that creates a caller whose first replies are these; keyword arguments change the `Endpoint`."""

    def make(*troubles: tuple[int, Any], **changes: Any) -> Caller:
        server = start(Server())
        server.troubles = list(troubles)
        return call_as(**{"base_url": f"{server.url}/v1"} | changes)

    return make
