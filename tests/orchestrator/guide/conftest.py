"""What the tests of guided runs share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from guide_values import guide_values


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    """Every setting of a small `guide`, with its files in the folder of the test."""
    return guide_values(tmp_path)
