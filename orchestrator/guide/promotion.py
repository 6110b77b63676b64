"""From a run to the file of first experiences, and back to an earlier step: what an operator does after a review."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from orchestrator.guide.guidance_file import GuidanceError, StoredGuidance, guidance_text, read_guidance
from orchestrator.guide.repository import GUIDANCE, GuidanceRepository
from orchestrator.output import OutputFolder, run_file, write_output
from tasks.escape import quote
from tasks.guide.experiences import Guidance


def run_guidance(run: Path, missions: Sequence[str] = ()) -> dict[str, Guidance]:
    """The current guidance of a run's missions, of all without names.  Raises: GuidanceError, OutputError."""
    if run_file(run)["kind"] != "guide":
        raise GuidanceError(f"{run} holds no run of guide")
    names = [path.parent.name for path in sorted(run.glob(f"*/{GUIDANCE}"))]
    if unknown := [name for name in missions if name not in names]:
        raise GuidanceError(
            f"{run} has no mission {', '.join(map(quote, unknown))}; it has {', '.join(names) or 'none'}"
        )
    return {name: GuidanceRepository(run / name, name, 1).load() for name in missions or names}


def promote(guidance: dict[str, Guidance], path: Path) -> dict[str, tuple[int, int]]:
    """Put the guidance of a run into the file that runs begin with; other missions of the file stay.

    Returns the step before and after, by mission.  Raises: GuidanceError where a mission of the file has moved: its
    step and experiences are none that the run knows.
    """
    with _held(path):
        before = read_guidance(path)
        for name, one in guidance.items():
            _check_ancestor(path, name, before.get(name), one)
        merged = {name: stored.guidance for name, stored in before.items()} | guidance
        write_output(path, guidance_text(merged))
    return {name: (before[name].guidance.step, one.step) for name, one in guidance.items()}


def roll_back(run: Path, mission: str, step: int, retention: int) -> Guidance:
    """Make an earlier step of a run's mission its next one.  Raises: OutputError."""
    run_guidance(run, [mission])
    output = OutputFolder(run)
    output.open()
    try:
        return GuidanceRepository(run / mission, mission, retention).roll_back(step)
    finally:
        output.close()


def _check_ancestor(path: Path, name: str, there: StoredGuidance | None, promoted: Guidance) -> None:
    if there is None:
        raise GuidanceError(f"{path} has no experiences of {quote(name)} any more")
    last = there.guidance.metadata.history[-1]
    known = {(line.step, line.hash) for line in promoted.metadata.history}
    if (last.step, last.hash) not in known:
        first = promoted.metadata.history[0]
        raise GuidanceError(
            f"{path}: {quote(name)} has moved: it is at step {last.step}, and the run began at step {first.step} of "
            "other experiences; start a run from the file as it is now"
        )


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Keep a second `promote` from the file.  Raises: GuidanceError."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                raise BlockingIOError
            yield
    except BlockingIOError:
        raise GuidanceError(f"{path} is being replaced by another command; try again") from None
    except FileNotFoundError:
        raise GuidanceError(f"{path} cannot be read: there is no such file") from None
