"""Settings: the options of Kconfig in a `.config`, and the YAML files of the other kinds."""

from collections.abc import Sequence


class SettingsError(Exception):
    """The settings cannot be used.  `problems` has one line for each wrong option, which begins with its name."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
