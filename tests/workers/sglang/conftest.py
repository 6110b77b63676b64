"""A model that an embedded server loads at once: SmolLM2's tokenizer, and few random weights; and a bench's store."""

from __future__ import annotations

from pathlib import Path

import pytest
from farm_bench import Bench
from small_model import make_small_model

from tasks.store.address import ENVIRONMENT_VARIABLE, store_url
from tasks.store.client import connect
from tasks.store.store import Store


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_small_model(tmp_path_factory.mktemp("small"))


@pytest.fixture
def store(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store of the bench, which the tasks of this process use too."""
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, bench.url)
    return Store(connect(store_url(bench.url)))
