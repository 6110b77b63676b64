"""Problems and pairs from the texts of their files, which are in the store: a worker has no files of the run."""

from __future__ import annotations

from collections.abc import Sequence

from tasks.routing.lines import numbered_lines
from tasks.routing.pairs import AuthoredPair, parse_pairs
from tasks.routing.problems import Problem, parse_problems


def problems_of(text: str, name: str = "problems") -> list[Problem]:
    """Raises: DatasetError with all bad lines of the file, which is called `name`."""
    return parse_problems(numbered_lines(text), name)


def pairs_of(text: str, name: str, problems: Sequence[Problem]) -> list[AuthoredPair]:
    """Raises: DatasetError with all bad lines of the file, which is called `name`."""
    return parse_pairs(numbered_lines(text), name, problems)
