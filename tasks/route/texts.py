"""Problems and pairs from the texts of their files, which are in the store: a worker has no files of the run."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from tasks.routing.pairs import AuthoredPair, parse_pairs
from tasks.routing.problems import Problem, load_problems


def problems_of(text: str) -> list[Problem]:
    """Raises: DatasetError with all bad lines."""
    with tempfile.TemporaryDirectory(prefix="whetstone-problems-") as folder:
        path = Path(folder) / "problems.jsonl"
        path.write_text(text)
        return load_problems(path)


def pairs_of(text: str, name: str, problems: Sequence[Problem]) -> list[AuthoredPair]:
    """Raises: DatasetError with all bad lines of the file, which is called `name`."""
    return parse_pairs(enumerate(text.encode().splitlines(), 1), name, problems)
