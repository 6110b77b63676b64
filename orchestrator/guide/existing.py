"""What a run of `guide` depends on, kept in its folder, and what becomes of a run that is there already.

`settings.yaml` has the settings and the options of the farm, `tickets.json` a hash of every ticket, which of them are
held out, and hashes of the templates.  A run goes on only with the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from typing_extensions import TypedDict

from orchestrator.guide.ingest import Ingested
from orchestrator.guide.options import GuideOptions
from orchestrator.guide.progress import read_progress
from orchestrator.guide.prompt_files import Templates
from orchestrator.guide.settings import GuideSettings, guide_settings_from
from orchestrator.output import OutputError, OutputFolder, read_state
from orchestrator.runs.kinds import finished_problem, open_run_folder
from orchestrator.settings.documents import flatten, override_values, pop_section, read_mapping, shown_key
from tasks.context import content_hash
from tasks.escape import quote

SETTINGS_FILE, TICKETS_FILE = "settings.yaml", "tickets.json"
RESUMABLE = ("endpoint.api_key_env", *(f"farm.{field.name}" for field in dataclasses.fields(GuideOptions)))
"""The settings that may change before a run is resumed, by dotted name: none of them alters a result."""
MOST_LISTED = 10
SHORT = 16  # digits of a hash


class MissionRecord(TypedDict):
    """Of one mission: the hash of each ticket by group id, the held-out ones, and the reason of each excluded one."""

    tickets: dict[str, str]
    holdout: list[str]
    excluded: dict[str, str]


class TicketsFile(TypedDict):
    """tickets.json; `templates` has the hashes of what critic and reflector are asked, by the setting of the file."""

    missions: dict[str, MissionRecord]
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
    aside.  `resume`: whether a person asks for the run that is there.  Raises: SettingsError, OutputError.
    """

    def problems() -> list[str]:
        differing = differing_settings(output.path, settings)
        if read_progress(output.path).is_finished and not resume:
            return [finished_problem(output.path), *differing]
        return [*differing, *differing_content(output.path, settings, tickets, templates)]

    set_aside = not resume and not settings.output.fail_if_exists
    open_run_folder(output, "guide", notify, set_aside=set_aside, problems=problems)


def keep_run(
    output: OutputFolder, settings: GuideSettings, options: GuideOptions, tickets: Ingested, templates: Templates
) -> None:
    """Write down what the run depends on.  Raises: OutputNotWritable."""
    values = {**dataclasses.asdict(settings), "farm": dataclasses.asdict(options)}
    output.write(SETTINGS_FILE, yaml.safe_dump(values, sort_keys=False, allow_unicode=True))
    if not (output.path / TICKETS_FILE).exists():
        content = TicketsFile(missions=ticket_records(tickets), templates=templates.hashes())
        output.write_state(TICKETS_FILE, content)


def load_guide(folder: Path, overrides: Sequence[str] = ()) -> tuple[GuideSettings, GuideOptions]:
    """What the run in a folder was started with, and what is changed of it; wherever the folder is now.

    Raises: SettingsError.
    """
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


def differing_content(folder: Path, settings: GuideSettings, tickets: Ingested, templates: Templates) -> list[str]:
    """One line for each template or prompt, and each mission's tickets, that are others than those it began with.

    Raises: OutputError where the folder no longer says what they were.
    """
    try:
        before = read_state(folder / TICKETS_FILE, TicketsFile)
    except FileNotFoundError:
        if not (folder / SETTINGS_FILE).exists() or not any((folder / name).is_dir() for name in tickets):
            return []
        raise OutputError(
            f"holdout: {folder / TICKETS_FILE} is missing: which tickets are held out is not known; start another run"
        ) from None
    now, hashes = ticket_records(tickets), templates.hashes()
    return [
        *(
            f"{name}: the file has another content than when the run in {folder} began"
            for name, known in before["templates"].items()
            if name in hashes and hashes[name] != known
        ),
        *(line for name in now for line in _differing(name, before["missions"].get(name), now[name], folder)),
    ]


def ticket_records(tickets: Ingested) -> dict[str, MissionRecord]:
    return {
        name: {
            "tickets": {one.group_id: content_hash(dataclasses.asdict(one))[:SHORT] for one in found.judged},
            "holdout": [ticket.group_id for ticket in found.holdout],
            "excluded": {one.group_id: one.reason for one in found.excluded},
        }
        for name, found in tickets.items()
    }


def _differing(name: str, before: MissionRecord | None, now: MissionRecord, folder: Path) -> Iterator[str]:
    if before is None:
        yield f"missions.{shown_key(name)}: the run in {folder} has no tickets of it"
        return
    changed = [
        group_id
        for group_id in {**now["tickets"], **before["tickets"], **now["excluded"], **before["excluded"]}
        if now["tickets"].get(group_id) != before["tickets"].get(group_id)
        or now["excluded"].get(group_id) != before["excluded"].get(group_id)
    ]
    if changed:
        more = f" and {len(changed) - MOST_LISTED} more" if len(changed) > MOST_LISTED else ""
        listed = ", ".join(changed[:MOST_LISTED]) + more
        yield f"stage_a_paths: tickets of {shown_key(name)} are others than in the run in {folder}: {listed}"
    elif now["holdout"] != before["holdout"]:
        yield f"holdout: other tickets of {shown_key(name)} are held out in the run in {folder}"


def _comparable(settings: GuideSettings) -> dict[str, Any]:
    return flatten({**dataclasses.asdict(settings), "output": {}})


def _shown(values: Mapping[str, Any], name: str) -> str:
    if name not in values:
        return "missing"
    value = values[name]
    return f"[{', '.join(map(quote, value))}]" if isinstance(value, list | tuple) else quote(value)
