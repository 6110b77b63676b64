"""A sound `.config` of one's own, in a folder of its own, for each test to change or to spoil."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.settings import SettingsError
from orchestrator.settings.kconfig import load_settings

EMBEDDED = Path(__file__).parents[3] / "configs" / "embedded.config"


class Sound:
    """A `.config` that loads, and the files that it names."""

    def __init__(self, folder: Path) -> None:
        self.path, self.questions, self.deltas = (folder / name for name in (".config", "questions.jsonl", "d.json"))
        self.questions.write_text("".join(json.dumps({"question": str(n)}) + "\n" for n in range(40)))
        self.deltas.write_text(json.dumps({str(cluster): 0.0 for cluster in range(12)}))
        self.path.write_text(EMBEDDED.read_text())
        for name, text in {
            "DATA_PATH": self.questions, "INITIAL_DELTAS_PATH": self.deltas,
            "TRAINING": "0-15", "VALIDATION": "16-31", "TEST": "",
        }.items():  # fmt: skip
            self.put(name, f'"{text}"')

    def put(self, name: str, written: str | None) -> None:
        """Let `written` stand behind CONFIG_`name`= in the file; None leaves the line out."""
        self.path.write_text(re.sub(rf"^CONFIG_{name}=.*\n", "", self.path.read_text(), flags=re.MULTILINE))
        if written is not None:
            self.append(f"CONFIG_{name}={written}")

    def append(self, line: str) -> None:
        self.path.write_text(self.path.read_text() + line + "\n")


@pytest.fixture
def sound(tmp_path: Path) -> Sound:
    return Sound(tmp_path)


@pytest.fixture
def refused(sound: Sound) -> Callable[..., dict[str, str]]:
    """What `load_settings` has against the options of the file, by their names without CONFIG_, in its order."""

    def refused(*overrides: str) -> dict[str, str]:
        with pytest.raises(SettingsError) as error:
            load_settings(sound.path, overrides)
        lines = error.value.problems
        assert all("\n" not in line and len(line) < 500 for line in lines)
        named = {line.partition(": ")[0].removeprefix("CONFIG_"): line.partition(": ")[2] for line in lines}
        assert len(named) == len(lines)
        return named

    return refused
