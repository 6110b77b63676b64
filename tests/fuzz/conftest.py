"""How many invalid inputs are tried: a few in each test run, many with `make fuzz`, which prints their number."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings

settings.register_profile("fuzz", max_examples=120, derandomize=False, print_blob=True)
TRIED: Counter[str] = Counter()


@pytest.fixture(scope="session")
def tried() -> Counter[str]:
    """Cases by kind of input, for the summary at the end."""
    return TRIED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if settings.get_current_profile_name() == "fuzz" and TRIED:
        terminalreporter.section("invalid inputs tried")
        for kind, count in sorted(TRIED.items()):
            terminalreporter.write_line(f"{count:>6,}  {kind}")
        terminalreporter.write_line(f"{sum(TRIED.values()):>6,}  in all")
