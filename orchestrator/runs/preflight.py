"""What a session learns before anything is asked: its versions, the target's server, and prompts that do not fit."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

from typing_extensions import TypedDict

from orchestrator.farm.work import Request, Scheduler
from orchestrator.runs.folder import OutputFolder, read_state
from tasks.records import Example, JobSpec, Target
from tasks.store.keys import content_hash
from tasks.store.workers import code_version

VERSIONS_FILE = "versions.json"
PACKAGES = ("whetstone-farm", "celery", "redis", "numpy", "deap", "pydantic")


@dataclass(frozen=True)
class Versions:
    """What the orchestrator of a session was: `code` is the hash of the packages that do the work."""

    code: str
    python: str
    system: str
    packages: Mapping[str, str]


class VersionsFile(TypedDict):
    """versions.json, oldest first."""

    sessions: list[Versions]


def keep_versions(output: OutputFolder) -> None:
    """Add this session's versions, unless the one before had the same."""
    known, here = read_versions(output), versions_here()
    if known[-1:] != [here]:
        output.write_state(VERSIONS_FILE, {"sessions": [asdict(one) for one in (*known, here)]})


def read_versions(output: OutputFolder) -> list[Versions]:
    """Oldest first; none for a run that has not started."""
    try:
        return read_state(output.path / VERSIONS_FILE, VersionsFile)["sessions"]
    except FileNotFoundError:
        return []


def versions_here() -> Versions:
    """Those of this process."""
    return Versions(code_version(), platform.python_version(), platform.platform(), dict(_installed()))


def _installed() -> list[tuple[str, str]]:
    found = []
    for name in PACKAGES:
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:  # of a source tree that is not installed, the code says which it is
            continue
    return found


def current_server(scheduler: Scheduler, target: Target, limit_s: float | None = None) -> dict[str, Any]:
    """What the gpu queue says of the server of `target`, which all keys cover; `TargetHost.identity` has the fields.

    limit_s: of the job, in seconds; None is the run's own.
    """
    server: dict[str, Any] = ask_server(scheduler, target, limit_s)["server"]
    return server


def ask_server(scheduler: Scheduler, target: Target, limit_s: float | None) -> dict[str, Any]:
    # With the attempt in its key: at each start the server may be another one.
    key = "server:" + content_hash(scheduler.dispatcher.run_id, scheduler.attempt)
    scheduler.submit(Request(key, JobSpec("gpu.identity", "server", {"target": dataclasses.asdict(target)}, limit_s)))
    [(_, result)] = scheduler.results()
    return result


@dataclasses.dataclass(frozen=True)
class LongPrompts:
    """The prompts that are longer than `limit` tokens: their lengths, and contexts with which they would fit, by id.

    cap: of an answer, in tokens, which has to fit as well.
    """

    limit: int | None
    cap: int
    lengths: Mapping[str, int]
    contexts: Mapping[str, str]

    def listed(self) -> str:
        """The questions with their lengths, such as "q7 (9,312 tokens)"."""
        return ", ".join(f"{name} ({length:,} tokens)" for name, length in self.lengths.items())

    def reason(self) -> str:
        fit = f"more than the {self.limit:,} tokens that fit the target beside an answer of {self.cap:,}"
        return f"prompts have {fit}: {self.listed()}"


def find_long_prompts(
    scheduler: Scheduler,
    target: Target,
    examples: Sequence[Example],
    *,
    truncate: bool,
    watch: Callable[[], None] = lambda: None,
) -> LongPrompts:
    """Measure the prompts of these examples."""
    arguments: dict[str, Any] = {
        "target": dataclasses.asdict(target),
        "examples": [dataclasses.asdict(example) for example in examples],
        "truncate": truncate,
    }
    key = "lengths:" + content_hash(scheduler.dispatcher.run_id, arguments)
    scheduler.submit(Request(key, JobSpec("gpu.lengths", "prompts", arguments)))
    [(_, result)] = scheduler.results(watch)
    return LongPrompts(result["limit"], target.sampling.max_new_tokens, result["lengths"], result["contexts"])
