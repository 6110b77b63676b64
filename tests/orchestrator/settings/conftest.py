"""A sound `.config` of one's own, in a folder of its own, for each test to change or to spoil."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.settings import SettingsError
from orchestrator.settings.kconfig import load_settings

ROOT = Path(__file__).parents[3]


class Sound:
    """A `.config` that loads, and the files that it names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / ".config"
        self.questions = folder / "questions.jsonl"
        self.questions.write_text("".join(json.dumps({"question": str(n)}) + "\n" for n in range(40)))
        self.deltas = folder / "deltas.json"
        self.write_deltas({str(cluster): 0.0 for cluster in range(12)})
        self.path.write_text((ROOT / "configs" / "embedded.config").read_text())
        self.put("DATA_PATH", f'"{self.questions}"')
        self.put("INITIAL_DELTAS_PATH", f'"{self.deltas}"')
        self.put("TRAINING", '"0-15"')
        self.put("VALIDATION", '"16-31"')
        self.put("TEST", '""')

    def put(self, name: str, written: str) -> None:
        """Let `written` stand behind CONFIG_`name`= in the file."""
        self.leave_out(name)
        self.append(f"CONFIG_{name}={written}")

    def leave_out(self, name: str) -> None:
        self.path.write_text(re.sub(rf"^CONFIG_{name}=.*\n", "", self.path.read_text(), flags=re.MULTILINE))

    def append(self, line: str) -> None:
        self.path.write_text(self.path.read_text() + line + "\n")

    def write_deltas(self, deltas: object) -> None:
        self.deltas.write_text(deltas if isinstance(deltas, str) else json.dumps(deltas))


@pytest.fixture
def sound(tmp_path: Path) -> Sound:
    return Sound(tmp_path)


@pytest.fixture
def problems(sound: Sound) -> Callable[..., tuple[str, ...]]:
    """What `load_settings` has against the file, with the overrides that are given."""

    def told(*overrides: str) -> tuple[str, ...]:
        with pytest.raises(SettingsError) as error:
            load_settings(sound.path, overrides)
        return error.value.problems

    return told


@pytest.fixture
def refused(problems: Callable[..., tuple[str, ...]]) -> Callable[..., tuple[str, ...]]:
    """The names, without CONFIG_, of the options that `load_settings` refuses; each has one short line."""

    def names(*overrides: str) -> tuple[str, ...]:
        lines = problems(*overrides)
        assert all("\n" not in line and len(line) < 500 for line in lines)
        return tuple(line.partition(":")[0].removeprefix("CONFIG_") for line in lines)

    return names
