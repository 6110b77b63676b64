"""The files of Stage-A: their lines as tickets, and everything that is wrong with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from orchestrator.guide.names import has_control, mission_name
from orchestrator.settings import SettingsError
from orchestrator.settings.documents import shown_key
from tasks.dataset import DatasetError, json_object, read_lines, text_field
from tasks.escape import quote
from tasks.guide.ticket import Ticket, image_number
from tasks.guide.verdict_lines import Verdict
from tasks.limits import CONTEXT_BYTES, NAME_BYTES, PAGE_BYTES, REPORTED_FAULTS
from tasks.validation import unrepeated

ExclusionReason = Literal["stage_a_incomplete"]


@dataclass(frozen=True)
class ExcludedTicket:
    """A ticket that takes part in nothing; `place` is its file and line."""

    group_id: str
    mission: str
    reason: ExclusionReason
    place: str


Tickets = Mapping[str, Sequence[Ticket]]
Exclusions = Mapping[str, Sequence[ExcludedTicket]]


def read_tickets(paths: Iterable[str], missions: Sequence[str]) -> tuple[Tickets, Exclusions]:
    """The tickets of files by mission, complete ones and excluded ones, in the order of their group ids.

    Raises: SettingsError with every bad line and every duplicate.
    """
    reader = _Reader(missions)
    for path in paths:
        reader.read(path)
    if problems := list(reader.problems()):
        raise SettingsError([f"stage_a_paths: {problem}" for problem in problems])
    return (
        {mission: sorted(reader.tickets[mission], key=lambda ticket: ticket.group_id) for mission in missions},
        {mission: sorted(reader.excluded[mission], key=lambda ticket: ticket.group_id) for mission in missions},
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


@dataclass
class _Reader:
    """Reads files and notes what is wrong with them, by file."""

    missions: Sequence[str]
    tickets: defaultdict[str, list[Ticket]] = field(default_factory=lambda: defaultdict(list))
    excluded: defaultdict[str, list[ExcludedTicket]] = field(default_factory=lambda: defaultdict(list))
    _faults: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    _unusable: list[str] = field(default_factory=list)
    _first: dict[tuple[str, str], str] = field(default_factory=dict)  # where a ticket was seen first
    _unknown: dict[str, list[str]] = field(default_factory=dict)  # places of tickets of other missions

    def read(self, path: str) -> None:
        faults = self._faults.setdefault(path, [])
        try:
            for number, line in read_lines(Path(path)):
                try:
                    self._take(line, f"{path}:{number}")
                except DatasetError as error:
                    faults.append((number, str(error)))
        except DatasetError as error:
            self._unusable.append(str(error))

    def problems(self) -> Iterator[str]:
        yield from self._unusable
        for path, faults in self._faults.items():
            yield from (f"{path}: line {number}: {fault}" for number, fault in faults[:REPORTED_FAULTS])
            if rest := [number for number, _ in faults[REPORTED_FAULTS:]]:
                yield f"{path}: {len(rest)} more malformed lines: {_ranges(rest)}"
        for mission, places in self._unknown.items():
            count = "1 ticket" if len(places) == 1 else f"{len(places)} tickets"
            yield f"{count} of mission {quote(mission)}, which is not under missions (the first: {places[0]})"

    def _take(self, line: bytes, place: str) -> None:
        """Raises: DatasetError with all that is wrong with the line."""
        row = json_object(line, unrepeated)
        ticket, is_complete = parse_ticket(row)
        name = (ticket.mission, ticket.group_id)
        if earlier := self._first.get(name):
            raise DatasetError(f"group_id {quote(ticket.group_id)} of {quote(ticket.mission)} is already at {earlier}")
        self._first[name] = place
        if ticket.mission not in self.missions:
            self._unknown.setdefault(ticket.mission, []).append(place)
        elif is_complete:
            self.tickets[ticket.mission].append(ticket)
        else:
            excluded = ExcludedTicket(ticket.group_id, ticket.mission, "stage_a_incomplete", place)
            self.excluded[ticket.mission].append(excluded)


def parse_ticket(row: Mapping[str, Any]) -> tuple[Ticket, bool]:
    """The ticket of one object of Stage-A, and whether Stage-A has completed it.

    Where it has not, summaries may be blank or missing.  Raises: DatasetError with everything that is wrong.
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


def _ranges(numbers: Sequence[int]) -> str:
    """Increasing numbers as text: 3-5, 8."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts)
