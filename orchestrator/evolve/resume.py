"""A run that goes on is checked against what it began with: its settings and its target's servers.

Otherwise its old and new scores could not be compared.  Settings that may change are in `settings_changes.json`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from orchestrator.console import command_line
from orchestrator.evolve.systems import SYSTEMS_FILE
from orchestrator.runs.folder import OutputError, OutputFolder, find_json, read_json, read_output_text
from orchestrator.settings import SettingsError
from orchestrator.settings.kconfig import load_settings, read_assignments, typed_value
from orchestrator.settings.options import RESUMABLE, Settings, changed_options
from orchestrator.settings.run import by_rules
from tasks.common.validation import checked_json
from tasks.judging.graders import needs_model
from tasks.records import Target
from tasks.store.store import Store

if TYPE_CHECKING:
    from orchestrator.farm.work import Scheduler
    from tasks.gpu.processor import ModelCheck

CHANGES_FILE, SERVERS, MODEL = "settings_changes.json", "servers.json", "model.json"
ANOTHER_RUN = "`orchestrator evolve` starts another run with another --output, or --fresh"


@dataclass(frozen=True)
class SettingsChange:
    """`options` has [old, new] by name without CONFIG_, as text."""

    generation: int
    options: Mapping[str, list[str]]


class ChangesFile(TypedDict):
    """settings_changes.json, oldest first."""

    changes: list[SettingsChange]


class ServersFile(TypedDict):
    """servers.json: what each server that has answered has reported of itself."""

    servers: list[dict[str, Any]]


def saved_settings(folder: Path, overrides: Sequence[str] = ()) -> Settings:
    """Wherever the folder is now."""
    return load_settings(folder / "config", [f"OUTPUT_DIR={folder}", *overrides])


def written_settings(output: OutputFolder) -> dict[str, str]:
    """The text of each setting in the run's `config`, by name without CONFIG_; empty before the run's start."""
    config = output.config
    if not config.exists():
        return {}
    found, problems = read_assignments(read_output_text(config))
    if problems:
        raise OutputError(f"{config} cannot be read: " + "; ".join(f"{name}: {why}" for name, why in problems.items()))
    return found


def read_changes(output: OutputFolder) -> list[SettingsChange]:
    """Oldest first."""
    found = find_json(output.path / CHANGES_FILE, ChangesFile)
    return found["changes"] if found else []


def record_change(output: OutputFolder, before: Settings, after: Settings, generation: int) -> None:
    """Add an entry, unless nothing changed.  A second call with the same arguments adds nothing."""
    options = {
        name: [typed_value(getattr(settings, name.lower())) for settings in (before, after)]
        for name in changed_options(before, after)
        if name != "OUTPUT_DIR"
    }
    changes, new = read_changes(output), SettingsChange(generation, options)
    if options and changes[-1:] != [new]:
        output.write_json(CHANGES_FILE, {"changes": [dataclasses.asdict(change) for change in [*changes, new]]})


def check_resumable(output: OutputFolder, settings: Settings) -> None:
    """Refuse to go on with a run under settings that would make it another one."""
    if not output.config.exists():
        return
    before = saved_settings(output.path)
    # Before anything has been measured, no result depends on what is done with long questions.
    is_measured = output.state.exists() or (output.path / SYSTEMS_FILE).exists()
    resumable = {*RESUMABLE} if is_measured else {*RESUMABLE, "TOO_LONG"}
    if needs_model(settings.judge):  # verdicts of two judges are not compared
        resumable -= {"OPENAI_BASE_URL", "OPENAI_PARAMETERS"}
        if by_rules(before) != by_rules(settings):
            resumable.remove("FARM")
    problems = [
        f"CONFIG_{name}: {getattr(settings, name.lower())!r} here, but {getattr(before, name.lower())!r} in the run in "
        f"{output.path}; `{command_line('retry', output.path)}` goes on with it, {ANOTHER_RUN}"
        for name in changed_options(before, settings)
        if name not in resumable
    ]
    if problems:
        raise SettingsError(problems)


def ensure_same_server(scheduler: Scheduler, settings: Settings, target: Target, output: OutputFolder) -> None:
    """Ask the gpu queue which server answers and which model it has, and keep both with the run."""
    # Imported here: a command that only shows a run asks no server.
    from orchestrator.runs.jobs import ask_server
    from tasks.gpu.host import differences

    found = ask_server(scheduler, target, None)
    now = found["server"]
    known = read_servers(output)
    if known and now not in known:
        option = "CONFIG_SGLANG_URL" if settings.sglang_url else "CONFIG_SGLANG_COMMAND"
        raise SettingsError(
            [
                f"{option}: the target server differs from that of the run in {output.path}: "
                f"{differences(known[-1], now)}; scores of two servers are not compared: "
                f"start the earlier one again, or {ANOTHER_RUN}"
            ]
        )
    keep_servers(output, [now])
    output.write_json(MODEL, found["model"])


def keep_servers(output: OutputFolder, servers: Sequence[Mapping[str, Any]]) -> None:
    """Add those that the file lacks: the gpu workers of a farm may have servers that differ."""
    known = read_servers(output)
    if new := [server for server in servers if server not in known]:
        output.write_json(SERVERS, {"servers": [*known, *new]})


def unknown_servers(output: OutputFolder, store: Store, run_id: str) -> list[dict[str, Any]]:
    """Servers that are none of the run's, but answered what waited in the queues after a process was killed."""
    known = read_servers(output)
    return [server for server in store.servers(run_id) if server not in known]


def read_servers(output: OutputFolder) -> list[dict[str, Any]]:
    found = find_json(output.path / SERVERS, ServersFile, parse=checked_json)
    return found["servers"] if found else []


def read_model(output: OutputFolder) -> ModelCheck:
    """The target's model.  Raises: FileNotFoundError for a run that has asked no server yet."""
    from tasks.gpu.processor import ModelCheck

    return read_json(output.path / MODEL, ModelCheck)
