"""What a run of `guide` depends on, kept in its folder, and what becomes of a run that is there already.

`settings.yaml` has the settings and the options of the farm, `tickets.json` hashes of the tickets and templates.  A run
goes on only with the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from typing_extensions import TypedDict

from orchestrator.guide.ingest import INCOMPLETE, Ingested
from orchestrator.guide.inputs import Templates
from orchestrator.guide.options import GuideOptions
from orchestrator.guide.report import read_progress
from orchestrator.guide.settings import GuideSettings, guide_settings_from
from orchestrator.runs.folder import OutputError, OutputFolder, read_state
from orchestrator.runs.kinds import finished_problem, open_run_folder
from orchestrator.settings.documents import flatten, override_values, pop_section, read_mapping, shown_key
from tasks.common.text import quote
from tasks.store.keys import content_hash

SETTINGS_FILE, TICKETS_FILE = "settings.yaml", "tickets.json"
RESUMABLE = ("endpoint.api_key_env", *(f"farm.{field.name}" for field in dataclasses.fields(GuideOptions)))
"""The settings that may change before a run is resumed, by dotted name: none of them alters a result."""
MOST_LISTED = 10
SHORT = 16  # digits of a hash


class TicketsFile(TypedDict):
    """tickets.json: the hash of each ticket by mission and group id (of an excluded one, the reason), and those of what
    critic and reflector are asked, by the setting of the file.
    """

    tickets: dict[str, dict[str, str]]
    templates: dict[str, str]


def prepare_folder(
    output: OutputFolder,
    settings: GuideSettings,
    tickets: Ingested,
    templates: Templates,
    notify: Callable[[str], None],
    *,
    resume: bool,
) -> None:
    """Open the folder for a new run, or to go on with the one that it holds.

    A finished run, or one of other settings or data, is refused; with `fail_if_exists: false` what is there is set
    aside.  `resume`: whether a person asks for the run that is there.
    """

    def problems() -> list[str]:
        differing = differing_settings(output.path, settings)
        if read_progress(output.path).is_finished and not resume:
            return [finished_problem(output.path), *differing]
        return [*differing, *differing_content(output.path, tickets, templates)]

    set_aside = not resume and not settings.output.fail_if_exists
    open_run_folder(output, "guide", notify, set_aside=set_aside, problems=problems)


def keep_run(
    output: OutputFolder, settings: GuideSettings, options: GuideOptions, tickets: Ingested, templates: Templates
) -> None:
    """Write down what the run depends on."""
    values = {**dataclasses.asdict(settings), "farm": dataclasses.asdict(options)}
    output.write(SETTINGS_FILE, yaml.safe_dump(values, sort_keys=False, allow_unicode=True))
    if not (output.path / TICKETS_FILE).exists():
        output.write_state(TICKETS_FILE, TicketsFile(tickets=_hashes(tickets), templates=templates.hashes()))


def load_guide(folder: Path, overrides: Sequence[str] = ()) -> tuple[GuideSettings, GuideOptions]:
    """What the run in a folder was started with, and what is changed of it; wherever the folder is now."""
    values = read_mapping(folder / SETTINGS_FILE)
    override_values(values, overrides, RESUMABLE, "run")
    options = pop_section(values, "farm", GuideOptions)
    folder = folder.resolve()
    output = values.get("output")
    if isinstance(output, dict):
        output |= {"root": str(folder.parent), "run_id": folder.name}
    return guide_settings_from(values), options


def differing_settings(folder: Path, settings: GuideSettings) -> list[str]:
    """One line for each setting that is another one than that of the run in the folder."""
    before, now = (_comparable(each) for each in (load_guide(folder)[0], settings))
    return [
        f"{name}: {_shown(now, name)} here, but {_shown(before, name)} in the run in {folder}"
        for name in {**now, **before}
        if name not in RESUMABLE and (name in now, now.get(name)) != (name in before, before.get(name))
    ]


def differing_content(folder: Path, tickets: Ingested, templates: Templates) -> list[str]:
    """One line for each template, and each mission's tickets, that are others than those that the run began with."""
    try:
        before = read_state(folder / TICKETS_FILE, TicketsFile)
    except FileNotFoundError:
        if not any((folder / name).is_dir() for name in tickets):
            return []
        raise OutputError(
            f"{folder / TICKETS_FILE} is missing: which tickets the run began with is not known; start another run"
        ) from None
    problems = [
        f"{name}: the file has another content than when the run in {folder} began"
        for name, known in templates.hashes().items()
        if before["templates"].get(name) != known
    ]
    for mission, now in _hashes(tickets).items():
        known_tickets = before["tickets"].get(mission, {})
        changed = [one for one in {**now, **known_tickets} if now.get(one) != known_tickets.get(one)]
        if changed:
            listed = ", ".join(changed[:MOST_LISTED]) + (", ..." if len(changed) > MOST_LISTED else "")
            problems.append(
                f"stage_a_paths: tickets of {shown_key(mission)} are others than in the run in {folder}: {listed}"
            )
    return problems


def _hashes(tickets: Ingested) -> dict[str, dict[str, str]]:
    return {
        name: {
            **{one.group_id: content_hash(dataclasses.asdict(one))[:SHORT] for one in found.judged},
            **dict.fromkeys(found.excluded, INCOMPLETE),
        }
        for name, found in tickets.items()
    }


def _comparable(settings: GuideSettings) -> dict[str, Any]:
    return flatten({**dataclasses.asdict(settings), "output": {}})


def _shown(values: Mapping[str, Any], name: str) -> str:
    if name not in values:
        return "missing"
    value = values[name]
    return f"[{', '.join(map(quote, value))}]" if isinstance(value, list | tuple) else quote(value)
