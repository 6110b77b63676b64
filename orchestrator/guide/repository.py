"""The experiences of missions on disk: `guidance.json`, and a snapshot of every step.

    {mission: {"step": 3, "updated_at": ..., "experiences": {"G0": ..., "G2": ...}, "metadata": {...}}}

`metadata` says where each entry comes from, the highest number ever given, and the hash of every step.  A file without
it is one that a person wrote.  Every write replaces the file whole; a reader sees the old content or the new.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from orchestrator.guide.names import mission_name
from orchestrator.output import OutputError, read_json, write_output, writing
from tasks.escape import quote
from tasks.guide.experiences import (
    EntryRecord,
    Guidance,
    GuidanceMetadata,
    GuidanceStep,
    experience_number,
    first_guidance,
    form_fault,
    guidance_hash,
    sort_experiences,
)
from tasks.validation import InvalidData, parse_json, unrepeated

GUIDANCE, START, SNAPSHOTS = "guidance.json", "guidance_start.json", "snapshots"
SNAPSHOT_NAME = "guidance-%Y%m%d-%H%M%S-%f.json"
TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


class GuidanceError(OutputError):
    """A file of experiences that cannot be used, or that somebody has changed; one line."""


class GuidanceEntry(TypedDict):
    """One mission in a file of experiences."""

    step: Annotated[int, Field(ge=0)]
    updated_at: str
    experiences: dict[str, str]
    metadata: NotRequired[GuidanceMetadata]


@dataclass(frozen=True)
class StoredGuidance:
    """The guidance of one mission in a file; `by_hand`: a person has changed it since a program wrote it."""

    guidance: Guidance
    by_hand: bool


def read_guidance(path: Path) -> dict[str, StoredGuidance]:
    """The guidance of each mission in a file, which a person may have written.

    An entry without metadata begins its history at its step.  Where a person has edited an entry that has a history,
    and raised its step, the edit is one more step of that history.  Raises: GuidanceError, also for an edit without a
    new step.
    """
    try:
        entries = read_json(path, dict[str, GuidanceEntry], _parse_unrepeated)
    except FileNotFoundError:
        raise GuidanceError(f"{path} cannot be read: there is no such file") from None
    except OutputError as error:
        raise GuidanceError(str(error)) from None
    found: dict[str, StoredGuidance] = {}
    for mission, entry in entries.items():
        try:
            found[mission_name(mission)] = _stored(entry)
        except ValueError as error:
            raise GuidanceError(f"{path}: {quote(mission)}: {error}") from None
    return found


def guidance_text(guidance: Mapping[str, Guidance]) -> str:
    """The text of a file with these missions."""
    entries = {mission: dataclasses.asdict(one) for mission, one in guidance.items()}
    return json.dumps(entries, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


@dataclass(frozen=True)
class GuidanceSnapshot:
    """One snapshot of a mission."""

    path: Path
    guidance: Guidance


def utc_time() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class GuidanceRepository:
    """The guidance of one mission in its folder of a run.  `retention` is how many snapshots are kept.

    Raises: GuidanceError, OutputNotWritable.
    """

    def __init__(
        self, folder: Path, mission: str, retention: int, now: Callable[[], datetime.datetime] = utc_time
    ) -> None:
        self.folder, self.mission, self.retention, self._now = folder, mission, retention, now
        self.path = folder / GUIDANCE

    def start_from(self, path: Path) -> Guidance:
        """The guidance with which the run begins: that of a file, which is only read, or that of its earlier start.

        The run's own file may be steps further; it stays as it is.
        """
        start = self.folder / START
        if not start.exists():
            found = read_guidance(path)
            if self.mission not in found:
                raise GuidanceError(f"{path} has no experiences of {quote(self.mission)}")
            write_output(start, guidance_text({self.mission: found[self.mission].guidance}))
        first = self._read(start)
        if self.path.exists():
            self._keep_snapshot(self.load())  # it is missing after a kill between the two files
        else:
            self._write(first)
        return first

    def load(self) -> Guidance:
        """The current guidance.  Raises: GuidanceError also where a person has edited it."""
        return self._read(self.path)

    def commit(self, guidance: Guidance) -> Guidance:
        """Make this the current guidance, one step after the one on disk; returns it as it is on disk.

        A step that the file has or had already is skipped, so that a run that goes through its steps anew never moves
        the guidance back; of equal steps the times on disk stay.
        Raises: GuidanceError where the file has moved otherwise; ValueError for what is no next step.
        """
        current = self.load()
        made = _identity(guidance.metadata.history)
        on_disk = _identity(current.metadata.history)
        if made == on_disk[: len(made)]:
            return current if guidance.step == current.step else guidance
        if made[:-1] != on_disk:
            raise GuidanceError(
                f"{self.path} is at step {current.step} ({on_disk[-1][1][:12]}), which is not the one before step "
                f"{guidance.step} of this run; somebody else has changed it"
            )
        _check_next(current, guidance)
        entries = {
            key: known if (known := current.metadata.entries.get(key)) and _same_entry(known, entry) else entry
            for key, entry in guidance.metadata.entries.items()
        }
        history = (*current.metadata.history, guidance.metadata.history[-1])
        next_one = replace(guidance, metadata=GuidanceMetadata(entries, guidance.metadata.highest, history))
        self._write(next_one)
        return next_one

    def roll_back(self, step: int) -> Guidance:
        """Make the experiences of an earlier step, as a snapshot has them, the next step."""
        current, kept = self.load(), {one.guidance.step: one.guidance for one in self.snapshots()}
        if step not in kept:
            known = ", ".join(str(number) for number in sorted(kept))
            raise GuidanceError(f"{self.folder / SNAPSHOTS} has no snapshot of step {step}; it has {known or 'none'}")
        next_one = _edited(current, kept[step].experiences, current.step + 1, self.time(), f"rollback:{step}")
        self._write(next_one)
        return next_one

    def snapshots(self) -> list[GuidanceSnapshot]:
        """The snapshots by step."""
        paths = (self.folder / SNAPSHOTS).glob("guidance-*.json")
        return sorted(
            (GuidanceSnapshot(path, self._read(path)) for path in paths),
            key=lambda snapshot: (snapshot.guidance.step, snapshot.path.name),
        )

    def time(self) -> str:
        """Now, as `updated_at` has it."""
        return self._now().strftime(TIME)

    def _read(self, path: Path) -> Guidance:
        found = read_guidance(path)
        if list(found) != [self.mission]:
            raise GuidanceError(f"{path}: it is not of {quote(self.mission)} alone")
        if found[self.mission].by_hand:
            raise GuidanceError(
                f"{path} was edited by hand; a run goes on only with what it wrote itself: restore the newest file of "
                f"{self.folder / SNAPSHOTS}, and edit the file of guidance.path for the next run"
            )
        return found[self.mission].guidance

    def _write(self, guidance: Guidance) -> None:
        """The file first, then its snapshot: a snapshot is of a step that was in force."""
        write_output(self.path, guidance_text({self.mission: guidance}))
        self._keep_snapshot(guidance)

    def _keep_snapshot(self, guidance: Guidance) -> None:
        if any(one.guidance.metadata.history == guidance.metadata.history for one in self.snapshots()):
            return
        at = self._now()
        while (path := self.folder / SNAPSHOTS / at.strftime(SNAPSHOT_NAME)).exists():
            at += datetime.timedelta(microseconds=1)
        write_output(path, guidance_text({self.mission: guidance}))
        for old in self.snapshots()[: -self.retention]:
            with writing(old.path):
                old.path.unlink()


def _parse_unrepeated(kind: type[Any], text: bytes) -> Any:
    try:
        json.loads(text, object_pairs_hook=unrepeated)
    except (ValueError, RecursionError) as error:
        raise error if isinstance(error, InvalidData) else InvalidData(f"it is not JSON: {error}") from None
    return parse_json(kind, text)


def _stored(entry: GuidanceEntry) -> StoredGuidance:
    """Raises: ValueError."""
    experiences = _checked(entry["experiences"])
    step, updated_at = entry["step"], entry["updated_at"]
    if "metadata" not in entry:
        first = first_guidance(experiences, updated_at)
        history = (replace(first.metadata.history[0], step=step),)
        guidance = replace(first, step=step, metadata=replace(first.metadata, history=history))
        return StoredGuidance(guidance, by_hand=True)
    metadata = entry["metadata"]
    if not metadata.history:
        raise ValueError("metadata.history is empty")
    last, ordered = metadata.history[-1], {key: metadata.entries[key] for key in _by_number(metadata.entries)}
    guidance = Guidance(step, updated_at, experiences, replace(metadata, entries=ordered))
    if (step, guidance_hash(experiences)) == (last.step, last.hash) and _is_consistent(guidance):
        return StoredGuidance(guidance, by_hand=False)
    if step <= last.step:
        raise ValueError(
            f"its experiences are not those of step {last.step} as its metadata has them: whoever edits them gives "
            f"them a higher step"
        )
    before = replace(guidance, step=last.step)
    return StoredGuidance(_edited(before, experiences, step, updated_at, None), by_hand=True)


def _checked(experiences: Mapping[str, str]) -> dict[str, str]:
    """Raises: ValueError."""
    if not experiences:
        raise ValueError("experiences is empty: a mission has at least one")
    for key, text in experiences.items():
        experience_number(key)
        if fault := form_fault(text):
            raise ValueError(f"experiences.{key}: {fault}")
    return sort_experiences(experiences)


def _by_number(keys: Mapping[str, Any]) -> list[str]:
    return sorted(keys, key=experience_number)


def _is_consistent(guidance: Guidance) -> bool:
    """Whether the metadata's entries are those of the experiences, and no number is above the highest."""
    entries = guidance.metadata.entries
    present = {key: entry.text for key, entry in entries.items() if not entry.removed}
    highest = max(experience_number(key) for key in entries) if entries else -1
    return present == dict(guidance.experiences) and highest <= guidance.metadata.highest


def _edited(
    before: Guidance, experiences: Mapping[str, str], step: int, updated_at: str, reflection_id: str | None
) -> Guidance:
    """The guidance after an edit that no proposal made.  What is gone stays in the metadata."""
    entries = dict(before.metadata.entries)
    for key, entry in entries.items():
        if key not in experiences and not entry.removed:
            entries[key] = replace(entry, removed=True, reflection_id=reflection_id, updated_at=updated_at)
    for key, text in experiences.items():
        known = entries.get(key)
        if known is None or known.removed or known.text != text:
            entries[key] = EntryRecord(reflection_id, (), None, updated_at, False, text)
    highest = max(before.metadata.highest, *map(experience_number, entries))
    line = GuidanceStep(step, guidance_hash(experiences), reflection_id, updated_at)
    ordered = {key: entries[key] for key in _by_number(entries)}
    metadata = GuidanceMetadata(ordered, highest, (*before.metadata.history, line))
    return Guidance(step, updated_at, sort_experiences(experiences), metadata)


def _identity(history: tuple[GuidanceStep, ...]) -> list[tuple[int, str, str | None]]:
    return [(line.step, line.hash, line.reflection_id) for line in history]


def _same_entry(one: EntryRecord, other: EntryRecord) -> bool:
    return replace(one, updated_at="") == replace(other, updated_at="")


def _check_next(current: Guidance, guidance: Guidance) -> None:
    """Raises: ValueError for guidance that breaks a rule of every step: the program would have made a mistake."""
    _checked(guidance.experiences)
    new = [key for key in guidance.experiences if key not in current.experiences]
    if guidance.step != current.step + 1 or not _is_consistent(guidance):
        raise ValueError(f"guidance of step {guidance.step} does not follow on step {current.step}")
    if any(experience_number(key) <= current.metadata.highest for key in new):
        raise ValueError("a new entry has a number that was given before")
