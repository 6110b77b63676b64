"""The terminal of the tests of commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from farm_bench import Bench
from simulated_run import Driver
from terminal import Terminal


@pytest.fixture
def terminal(simulated_farm: Bench, driver: Driver, tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, simulated_farm.url)
    yield terminal
    terminal.close()
