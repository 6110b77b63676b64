"""What a `route` run depends on, kept in its folder, and what becomes of a run that is there already.

`settings.yaml` has the settings and the options of the farm, `inputs/` a copy of each data file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from orchestrator.route.progress import read_route_progress
from orchestrator.route.settings import RouteOptions, RouteSettings, route_settings_from
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.kinds import finished_problem, open_run_folder
from orchestrator.settings.documents import flatten, override_values, pop_section, read_mapping
from tasks.common.text import quote

SETTINGS_FILE, INPUTS = "settings.yaml", "inputs"
RESUMABLE = tuple(f"farm.{field.name}" for field in dataclasses.fields(RouteOptions))
"""The settings that may change before a run is resumed, by dotted name: none of them alters a result."""


def prepare_route_folder(
    output: OutputFolder,
    settings: RouteSettings,
    texts: Mapping[str, str],
    notify: Callable[[str], None],
    *,
    resume: bool,
) -> None:
    """Open the folder for a new run, or to go on with the one that it holds.

    A finished run, or one of other settings or data, is refused; with `fail_if_exists: false` what is there is set
    aside.  `resume`: whether a person asks for the run that is there.
    """

    def problems() -> list[str]:
        differing = differing_inputs(output.path, settings, texts)
        is_over = read_route_progress(output.path).is_finished and not resume
        return [finished_problem(output.path), *differing] if is_over else differing

    set_aside = not resume and not settings.output.fail_if_exists
    open_run_folder(output, "route", notify, set_aside=set_aside, problems=problems)


def keep_route(output: OutputFolder, settings: RouteSettings, options: RouteOptions, texts: Mapping[str, str]) -> None:
    """Write down what the run depends on."""
    values = {**dataclasses.asdict(settings), "farm": dataclasses.asdict(options)}
    output.write(SETTINGS_FILE, yaml.safe_dump(_plain(values), sort_keys=False, allow_unicode=True))
    (output.path / INPUTS).mkdir(exist_ok=True)
    for name, text in texts.items():
        if not _copy(output.path, name).exists():
            output.write(f"{INPUTS}/{name}.jsonl", text)


def load_route(folder: Path, overrides: Sequence[str] = ()) -> tuple[RouteSettings, RouteOptions]:
    """What the run in a folder was started with, and what is changed of it; its data are the copies."""
    values = read_mapping(folder / SETTINGS_FILE)
    override_values(values, overrides, RESUMABLE)
    options = pop_section(values, "farm", RouteOptions)
    folder = folder.resolve()
    if isinstance(output := values.get("output"), dict):
        output |= {"root": str(folder.parent), "run_id": folder.name}
    if isinstance(data := values.get("data"), dict):
        data |= {name: str(_copy(folder, name)) for name, path in data.items() if path is not None}
    return route_settings_from(values), options


def differing_inputs(folder: Path, settings: RouteSettings, texts: Mapping[str, str]) -> list[str]:
    """One line for each setting and file that is another one than that of the run in the folder."""
    if not (folder / SETTINGS_FILE).exists():
        return []
    before, now = (_comparable(each) for each in (load_route(folder)[0], settings))
    lines = [
        f"{name}: {quote(now.get(name))} here, but {quote(before.get(name))} in the run in {folder}"
        for name in {**now, **before}
        if now.get(name) != before.get(name)
    ]
    for name, text in texts.items():
        kept = _copy(folder, name)
        if kept.exists() and kept.read_bytes() != text.encode():  # as bytes: a line may end with CRLF
            lines.append(f"data.{name}: the file is another one than in the run in {folder}")
    return lines


def _copy(folder: Path, name: str) -> Path:
    return folder / INPUTS / f"{name}.jsonl"


def _comparable(settings: RouteSettings) -> dict[str, Any]:
    return flatten(_plain({**dataclasses.asdict(settings), "output": {}, "data": {}, "estimate": {}}))


def _plain(value: Any) -> Any:
    """Tuples as lists, which YAML writes without tags."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
