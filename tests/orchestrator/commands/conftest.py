"""Commands of `orchestrator` in this process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orchestrator.cli import main


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Runs a command; its exit status, and all that it prints."""

    def run(*arguments: object) -> tuple[int, str]:
        status = main([*map(str, arguments)])
        said = capsys.readouterr()
        return status, said.out + said.err

    return run
