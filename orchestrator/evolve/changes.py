"""Settings that were changed while a run was stopped: `settings_changes.json` in its output folder.

Each entry has the generation from which the new values hold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import TypedDict

from orchestrator.evolve.systems import SYSTEMS_FILE
from orchestrator.runs.folder import OutputError, OutputFolder, read_output_text, read_state
from orchestrator.settings import RESUMABLE, Settings, SettingsError, changed_options, load_settings
from orchestrator.settings.kconfig import read_assignments, typed_value
from orchestrator.settings.run import by_rules, judge_of
from tasks.judging.graders import needs_model

CHANGES_FILE = "settings_changes.json"


@dataclass(frozen=True)
class SettingsChange:
    """`options` has [old, new] by name without CONFIG_, as text."""

    generation: int
    options: Mapping[str, list[str]]


class ChangesFile(TypedDict):
    """settings_changes.json, oldest first."""

    changes: list[SettingsChange]


def saved_settings(folder: Path, overrides: Sequence[str] = ()) -> Settings:
    """What the run in an output folder was started with, wherever the folder is now."""
    return load_settings(folder / "config", [f"OUTPUT_DIR={folder}", *overrides])


def written_settings(output: OutputFolder) -> dict[str, str]:
    """The text of each setting in the run's `config`, by name without CONFIG_; empty before the run's start.

    The file says all of it; whether the files that it names are here does not matter to a reader.
    """
    config = output.config
    if not config.exists():
        return {}
    found, problems = read_assignments(read_output_text(config))
    if problems:
        raise OutputError(f"{config} cannot be read: " + "; ".join(f"{name}: {why}" for name, why in problems.items()))
    return found


def read_changes(output: OutputFolder) -> list[SettingsChange]:
    """Oldest first."""
    try:
        return read_state(output.path / CHANGES_FILE, ChangesFile)["changes"]
    except FileNotFoundError:
        return []


def record_change(output: OutputFolder, before: Settings, after: Settings, generation: int) -> None:
    """Add an entry, unless nothing changed.  A second call with the same arguments adds nothing."""
    options = {
        name: [typed_value(getattr(settings, name.lower())) for settings in (before, after)]
        for name in changed_options(before, after)
        if name != "OUTPUT_DIR"
    }
    changes = read_changes(output)
    is_recorded = bool(changes) and (changes[-1].generation, dict(changes[-1].options)) == (generation, options)
    if options and not is_recorded:
        changes = [*changes, SettingsChange(generation, options)]
        output.write_state(CHANGES_FILE, {"changes": [dataclasses.asdict(change) for change in changes]})


def judge_identity(settings: Settings) -> object:
    """What makes two judges the same: the settings of one that asks a model, and where it is called."""
    if not needs_model(settings.judge):
        return settings.judge
    address = settings.openai_base_url or ("rules" if by_rules(settings) else "external")
    return dataclasses.replace(judge_of(settings), context_tokens=0), address


def options_of(changes: list[SettingsChange], generation: int) -> dict[str, str]:
    """The options that hold from this generation on, with their new values."""
    return {
        name: values[1]
        for change in changes
        if change.generation == generation
        for name, values in change.options.items()
    }


def check_resumable(output: OutputFolder, settings: Settings) -> None:
    """Refuse to go on with a run under settings that would make it another one."""
    if not output.config.exists():
        return
    before = saved_settings(output.path)
    # Before anything has been measured, no result depends on what is done with long questions.
    is_measured = output.state.exists() or (output.path / SYSTEMS_FILE).exists()
    resumable = RESUMABLE if is_measured else (*RESUMABLE, "TOO_LONG")
    differing = [name for name in changed_options(before, settings) if name not in resumable]
    if differing:
        raise SettingsError(
            [
                f"CONFIG_{name}: {getattr(settings, name.lower())!r} here, but {getattr(before, name.lower())!r} in "
                f"the run in {output.path}; `orchestrator evolve` starts another run with another --output, or --fresh"
                for name in differing
            ]
        )
    if judge_identity(before) != judge_identity(settings):
        raise SettingsError(
            [
                f"CONFIG_OPENAI_BASE_URL, CONFIG_OPENAI_PARAMETERS: not the judge of the run in {output.path}, and "
                "verdicts of two judges are not compared; start another run, which takes the stored answers"
            ]
        )
