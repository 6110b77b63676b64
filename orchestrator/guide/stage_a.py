"""The files of Stage-A: their lines as tickets, and everything that is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from orchestrator.guide.settings import has_control, mission_name
from orchestrator.settings.documents import shown_key
from orchestrator.settings.options import SettingsError
from tasks.common.text import quote
from tasks.common.validation import CONTEXT_BYTES, NAME_BYTES, PAGE_BYTES, REPORTED_FAULTS, unrepeated
from tasks.dataset import DatasetError, json_object, read_lines, text_field
from tasks.guide.ticket import Ticket, Verdict, image_number

INCOMPLETE = "stage_a_incomplete"  # why a ticket takes part in nothing

Tickets = Mapping[str, Sequence[Ticket]]


def read_tickets(paths: Iterable[str], missions: Sequence[str]) -> tuple[Tickets, Mapping[str, Sequence[str]]]:
    """By mission the tickets of files that Stage-A has completed, and the ids of the others, both by group id."""
    tickets: dict[str, list[Ticket]] = {mission: [] for mission in missions}
    excluded: dict[str, list[str]] = {mission: [] for mission in missions}
    first: dict[tuple[str, str], str] = {}  # where a ticket was seen first
    problems = list[str]()
    for path in paths:
        try:
            for number, line in read_lines(Path(path)):
                try:
                    ticket, is_complete = parse_ticket(json_object(line, unrepeated))
                except DatasetError as error:
                    problems.append(f"{path}: line {number}: {error}")
                    continue
                name = (ticket.mission, ticket.group_id)
                if name in first:
                    known = quote(ticket.group_id)
                    problems.append(f"{path}: line {number}: group_id {known} is already at {first[name]}")
                elif ticket.mission not in tickets:
                    problems.append(f"{path}: line {number}: mission {quote(ticket.mission)} is not under missions")
                elif is_complete:
                    tickets[ticket.mission].append(ticket)
                else:
                    excluded[ticket.mission].append(ticket.group_id)
                first.setdefault(name, f"{path}:{number}")
        except DatasetError as error:
            problems.append(str(error))
    if problems:
        more = [f"{len(problems) - REPORTED_FAULTS} more"] if len(problems) > REPORTED_FAULTS else []
        raise SettingsError([f"stage_a_paths: {problem}" for problem in [*problems[:REPORTED_FAULTS], *more]])
    return (
        {mission: sorted(found, key=lambda ticket: ticket.group_id) for mission, found in tickets.items()},
        {mission: sorted(found) for mission, found in excluded.items()},
    )


def stage_a_line(ticket: Ticket) -> dict[str, Any]:
    """A complete ticket as one object of Stage-A's files."""
    line: dict[str, Any] = {
        "group_id": ticket.group_id,
        "mission": ticket.mission,
        "label": ticket.label,
        "per_image": dict(ticket.per_image),
        "stage_a_complete": True,
    }
    if ticket.label_source is not None:
        line["label_source"] = ticket.label_source
    if ticket.label_timestamp is not None:
        line["label_timestamp"] = ticket.label_timestamp
    return line


def parse_ticket(row: Mapping[str, Any]) -> tuple[Ticket, bool]:
    """The ticket of one object of Stage-A, and whether Stage-A has completed it.

    Where it has not, summaries may be blank or missing.
    """
    row, faults = dict(row), list[str]()
    group_id = text_field(row, "group_id", faults, NAME_BYTES)
    if has_control(group_id):
        faults.append(f"group_id {quote(group_id)} has a control character")
    mission = mission_name(text_field(row, "mission", faults, NAME_BYTES))
    label = text_field(row, "label", faults, NAME_BYTES)
    if label and label not in ("pass", "fail"):
        faults.append(f"label is {quote(label)}, not 'pass' or 'fail'")
    complete = row.get("stage_a_complete")
    if "stage_a_complete" not in row:
        faults.append("stage_a_complete is missing")
    elif not isinstance(complete, bool):
        faults.append("stage_a_complete is not true or false")
    per_image = _summaries(row, faults, is_complete=complete is not False)
    extra = {
        name: text_field(row, name, faults, NAME_BYTES) if row.get(name) is not None else None
        for name in ("label_source", "label_timestamp")
    }
    if faults:
        raise DatasetError("; ".join(faults))
    return Ticket(group_id, mission, cast(Verdict, label), per_image, **extra), bool(complete)


def _summaries(row: dict[str, Any], faults: list[str], *, is_complete: bool) -> dict[str, str]:
    found = row.get("per_image")
    if not isinstance(found, dict):
        faults.append("per_image is missing" if "per_image" not in row else "per_image is not an object")
        return {}
    if is_complete and not found:
        faults.append("per_image is empty")
    summaries: dict[str, str] = {}
    numbers: dict[int, str] = {}
    for key in found:
        try:
            number = image_number(key)
        except ValueError:
            faults.append(f"per_image.{shown_key(key)}: the key is not image_ and a number")
            continue
        if (other := numbers.setdefault(number, key)) != key:
            faults.append(f"per_image.{key}: is the same image as {other}")
        if is_complete or not _is_blank(found[key]):
            summaries[key] = text_field(found, key, faults, PAGE_BYTES, "per_image.")
    if sum(len(text.encode("utf-8", "replace")) for text in summaries.values()) > CONTEXT_BYTES:
        faults.append(f"per_image is longer than {CONTEXT_BYTES:,} bytes")
    return summaries


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())
