"""The one error of this package."""

from __future__ import annotations

from collections.abc import Sequence


class SettingsError(Exception):
    """The settings cannot be used.  `problems` has one line an option, each with the option's name, in their order."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
