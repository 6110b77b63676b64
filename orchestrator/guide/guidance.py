"""Experiences on disk: files that a person or a run has written; a mission's `guidance.json` and its snapshots.

    {mission: {"step": 3, "updated_at": ..., "experiences": {"G0": ..., "G2": ...}, "metadata": {...}}}

`metadata` says where each entry comes from, the highest number ever given, and the hash of every step.  A file without
it is one that a person wrote.  Every write replaces a file whole; a reader sees the old content or the new.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.guide.settings import mission_name
from orchestrator.runs.folder import OutputError, OutputFolder, run_file, write_output, writing
from tasks.common.text import quote
from tasks.common.validation import parse_json, unrepeated
from tasks.guide.experiences import (
    Guidance,
    check_experiences,
    edited_guidance,
    guidance_hash,
    sort_experiences,
)

GUIDANCE, START, SNAPSHOTS = "guidance.json", "guidance_start.json", "snapshots"
SNAPSHOT_NAME = "guidance-%Y%m%d-%H%M%S-%f.json"
TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


def read_guidance(path: Path, *, by_program: bool = False) -> dict[str, Guidance]:
    """The guidance of each mission in a file; `by_program`: one that no person may have changed."""
    try:
        text = path.read_bytes()
        json.loads(text, object_pairs_hook=unrepeated)
        entries = parse_json(dict[str, Guidance], text)
    except (OSError, ValueError, RecursionError) as error:
        raise OutputError(f"{path} cannot be read: {error}") from None
    found: dict[str, Guidance] = {}
    for mission, entry in entries.items():
        try:
            found[mission_name(mission)] = _with_history(entry, by_program)
        except ValueError as error:
            raise OutputError(f"{path}: {quote(mission)}: {error}") from None
    return found


def _with_history(read: Guidance, by_program: bool) -> Guidance:
    """Without metadata a history begins; with it and a higher step, an edit by hand is the next step of the history."""
    check_experiences(read.experiences)
    read, history = dataclasses.replace(read, experiences=sort_experiences(read.experiences)), read.metadata.history
    if history and (read.step, guidance_hash(read.experiences)) == (history[-1].step, history[-1].hash):
        return read
    if by_program:
        raise ValueError("it was edited by hand")
    if history and read.step <= history[-1].step:
        raise ValueError(
            f"its experiences are not those of step {history[-1].step} as its metadata has them, and its step is no "
            "higher one"
        )
    return edited_guidance(read, read.experiences, read.step, read.updated_at, None)


def write_guidance(path: Path, guidance: Mapping[str, Guidance]) -> None:
    """Replace a file with these missions."""
    entries = {mission: dataclasses.asdict(one) for mission, one in guidance.items()}
    write_output(path, json.dumps(entries, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def utc_now() -> str:
    """The time as all artifacts write it, with microseconds."""
    return datetime.datetime.now(datetime.UTC).strftime(TIME)


@dataclass(frozen=True)
class GuidanceRepository:
    """The guidance of one mission in its folder of a run.  `retention` is how many snapshots are kept."""

    folder: Path
    mission: str
    retention: int

    @property
    def path(self) -> Path:
        return self.folder / GUIDANCE

    def start_from(self, path: Path) -> Guidance:
        """The guidance with which the run begins: that of a file, which is only read, or that of its earlier start."""
        start = self.folder / START
        if not start.exists():
            found = read_guidance(path)
            if self.mission not in found:
                raise OutputError(f"{path} has no experiences of {quote(self.mission)}")
            write_guidance(start, {self.mission: found[self.mission]})
        first = self._read(start)
        if self.path.exists():
            self._keep_snapshot(self.load())  # it is missing after a kill between the two files
        else:
            kept = list(self.snapshots().values())  # there are some where somebody has removed the file
            self._write(kept[-1] if kept else first)
        return first

    def load(self) -> Guidance:
        """The current guidance."""
        return self._read(self.path)

    def commit(self, guidance: Guidance) -> None:
        """Make this the current guidance, one step after the one on disk.

        A step that the file has had is skipped: a run that goes through its steps anew never moves the guidance back.
        """
        current = self.load()
        made, on_disk = (
            [(line.step, line.hash, line.reflection_id) for line in one.metadata.history] for one in (guidance, current)
        )
        if made == on_disk[: len(made)]:
            return
        if made[:-1] != on_disk:
            raise OutputError(
                f"{self.path} is at step {current.step} ({on_disk[-1][1][:12]}), which is not the one before step "
                f"{guidance.step} of this run; somebody else has changed it"
            )
        self._write(guidance)

    def roll_back(self, step: int) -> Guidance:
        """Make the experiences of an earlier step, as a snapshot has them, the next step."""
        current, kept = self.load(), {one.step: one for one in self.snapshots().values()}
        if step not in kept:
            known = ", ".join(map(str, kept)) or "none"
            raise OutputError(f"{self.folder / SNAPSHOTS} has no snapshot of step {step}; it has {known}")
        next_one = edited_guidance(current, kept[step].experiences, current.step + 1, utc_now(), f"rollback:{step}")
        self._write(next_one)
        return next_one

    def snapshots(self) -> dict[Path, Guidance]:
        """In the order of their steps."""
        found = {path: self._read(path) for path in (self.folder / SNAPSHOTS).glob("guidance-*.json")}
        return dict(sorted(found.items(), key=lambda one: (one[1].step, one[0].name)))

    def _read(self, path: Path) -> Guidance:
        try:
            return read_guidance(path, by_program=True)[self.mission]
        except (OutputError, KeyError) as error:
            hint = f"restore the newest file of {self.folder / SNAPSHOTS}, and edit that of guidance.path instead"
            raise OutputError(f"{path} is not of this run ({error}); {hint}") from None

    def _write(self, guidance: Guidance) -> None:
        """The file first, then its snapshot: a snapshot is of a step that was in force."""
        write_guidance(self.path, {self.mission: guidance})
        self._keep_snapshot(guidance)

    def _keep_snapshot(self, guidance: Guidance) -> None:
        if any(one.step == guidance.step for one in self.snapshots().values()):
            return
        at = datetime.datetime.now(datetime.UTC)
        while (path := self.folder / SNAPSHOTS / at.strftime(SNAPSHOT_NAME)).exists():
            at += datetime.timedelta(microseconds=1)
        write_guidance(path, {self.mission: guidance})
        for old in list(self.snapshots())[: -self.retention]:
            with writing(old):
                old.unlink()


# After a run


def run_guidance(run: Path, missions: Sequence[str] = ()) -> dict[str, Guidance]:
    """The current guidance of a run's missions, of all without names."""
    if run_file(run)["kind"] != "guide":
        raise OutputError(f"{run} holds no run of guide")
    names = [path.parent.name for path in sorted(run.glob(f"*/{GUIDANCE}"))]
    if unknown := [name for name in missions if name not in names]:
        raise OutputError(f"{run} has no mission {', '.join(map(quote, unknown))}; it has {', '.join(names) or 'none'}")
    return {name: GuidanceRepository(run / name, name, 1).load() for name in missions or names}


def promote(guidance: dict[str, Guidance], path: Path) -> dict[str, tuple[int, int]]:
    """Put the guidance of a run into the file that runs begin with; other missions of the file stay.

    Returns the step before and after, by mission.
    """
    before = read_guidance(path)
    for name, one in guidance.items():
        if name not in before:
            raise OutputError(f"{path} has no experiences of {quote(name)} any more")
        last = before[name].metadata.history[-1]
        if (last.step, last.hash) not in {(line.step, line.hash) for line in one.metadata.history}:
            raise OutputError(
                f"{path}: {quote(name)} has moved: it is at step {last.step}, and the run began at step "
                f"{one.metadata.history[0].step} of other experiences; start a run from the file as it is now"
            )
    write_guidance(path, before | guidance)
    return {name: (before[name].step, one.step) for name, one in guidance.items()}


def roll_back(run: Path, mission: str, step: int, retention: int) -> Guidance:
    """Make an earlier step of a run's mission its next one."""
    run_guidance(run, [mission])
    output = OutputFolder(run)
    output.open()
    try:
        return GuidanceRepository(run / mission, mission, retention).roll_back(step)
    finally:
        output.close()
