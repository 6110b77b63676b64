"""The experiences of one mission in the folder of a run: `guidance.json`, and a snapshot of every step.

Every write replaces the file whole; a reader sees the old content or the new.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.guide.guidance_file import GuidanceError, guidance_text, read_guidance
from orchestrator.output import write_output, writing
from tasks.escape import quote
from tasks.guide.experiences import (
    EntryRecord,
    Guidance,
    GuidanceMetadata,
    GuidanceStep,
    check_experiences,
    edited_guidance,
    experience_number,
    is_consistent,
)

GUIDANCE, START, SNAPSHOTS = "guidance.json", "guidance_start.json", "snapshots"
SNAPSHOT_NAME = "guidance-%Y%m%d-%H%M%S-%f.json"
TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


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
            kept = self.snapshots()  # there are some where somebody has removed the file
            self._write(kept[-1].guidance if kept else first)
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
        next_one = edited_guidance(current, kept[step].experiences, current.step + 1, self.time(), f"rollback:{step}")
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
        """Raises: GuidanceError for what the run has not written."""
        own = "a run goes on only with what it wrote itself: "
        hint = f"{own}restore the newest file of {self.folder / SNAPSHOTS}, and edit that of guidance.path instead"
        try:
            found = read_guidance(path)
        except GuidanceError as error:
            raise GuidanceError(f"{error}; {hint}") from None
        if list(found) != [self.mission]:
            raise GuidanceError(f"{path}: it is not of {quote(self.mission)} alone; {hint}")
        if found[self.mission].by_hand:
            raise GuidanceError(f"{path} was edited by hand; {hint}")
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


def _identity(history: tuple[GuidanceStep, ...]) -> list[tuple[int, str, str | None]]:
    return [(line.step, line.hash, line.reflection_id) for line in history]


def _same_entry(one: EntryRecord, other: EntryRecord) -> bool:
    return replace(one, updated_at="") == replace(other, updated_at="")


def _check_next(current: Guidance, guidance: Guidance) -> None:
    """Raises: ValueError for guidance that breaks a rule of every step: the program would have made a mistake."""
    check_experiences(guidance.experiences)
    new = [key for key in guidance.experiences if key not in current.experiences]
    if guidance.step != current.step + 1 or not is_consistent(guidance):
        raise ValueError(f"guidance of step {guidance.step} does not follow on step {current.step}")
    if any(experience_number(key) <= current.metadata.highest for key in new):
        raise ValueError("a new entry has a number that was given before")
