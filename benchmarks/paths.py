"""How many of our files a newcomer opens to follow four paths, and how deep our calls go on them.

A file counts when one of its functions runs, unless a module is being imported.  Frames are those of our functions on
one stack, without comprehensions: at the end of the first path, at the deepest place of the others.

    orchestrator evolve   from the start of the process to the first chord
    gpu.answer            one task of a worker whose target is up
    openai.reflect        one task of a worker
    step of route         `Trajectory.step` of the programming problems, on a model of random weights

The first three are those of one small run of the embedded farm.  `python benchmarks/paths.py`
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = tuple(f"{ROOT / package}/" for package in ("orchestrator", "tasks", "workers"))
COMMAND, STEP = "orchestrator evolve", "step of route"
WANTED = {COMMAND: (30, 12), "gpu.answer": (30, 0), "openai.reflect": (30, 0), STEP: (14, 0)}  # files, frames; 0: any
ROUTE_TEST = "tests/orchestrator/route/test_route_runs.py::test_a_run_ends_with_all_its_files"
HELPER = "connections"  # the thread that works for the tasks of all others
OPTIONS = f"""DATA_PATH={ROOT}/configs/data/sample.jsonl TRAINING=0-2 VALIDATION=16 TEST= PROMPTS_PATH= SEED=366
TARGET_MAX_NEW_TOKENS=16 POPULATION_SIZE=2 NGEN=1 CXPB=0 MUTPB=1 ELITISM_SIZE=0"""


@dataclass
class Followed:
    name: str
    first: FrameType | None  # the path ends when this function returns
    began: float = field(default_factory=time.time)
    files: set[str] = field(default_factory=set)
    frames: int = 0


class Watch:
    """Follows the paths of this process, as its profiling function."""

    def __init__(self, folder: Path) -> None:
        self.folder, is_command = folder, sys.orig_argv[1:4] == ["-m", "orchestrator", "evolve"]
        self.open = {threading.get_ident(): Followed(COMMAND, None)} if is_command else {}  # by the thread
        self.known: dict[CodeType, str] = {}  # the file of a function of ours, or ""

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code, thread = frame.f_code, threading.get_ident()
        if event == "return" and (path := self.open.get(thread)) and path.first is frame:
            self.end(thread)
        if event != "call":
            return
        if code.co_qualname == "build_tracer.<locals>.trace_task":  # Celery runs a task
            self.open[thread] = Followed(str(frame.f_locals["name"]), frame)
        elif code.co_qualname == "Trajectory.step":
            self.open[thread] = Followed(STEP, frame)
        elif code.co_qualname == "_chord.apply_async" and (path := self.open.get(thread)) and path.name == COMMAND:
            path.frames = depth(frame)
            self.end(thread)
        if not self.open:
            return
        if code not in self.known and not is_imported(frame):
            self.known[code] = code.co_filename if is_ours(code) else ""
        if not (name := self.known.get(code)):
            return
        threads = list(self.open) if threading.current_thread().name == HELPER else [thread]
        for path in filter(None, map(self.open.get, threads)):
            path.files.add(name)
            if path.name != COMMAND:
                path.frames = max(path.frames, depth(frame))

    def end(self, thread: int) -> None:
        path = self.open.pop(thread)
        files = sorted(str(Path(name).relative_to(ROOT)) for name in path.files)
        found = {"path": path.name, "files": files, "frames": path.frames, "began": path.began, "ended": time.time()}
        (self.folder / f"{os.getpid()}-{thread}-{path.began}.json").write_text(json.dumps(found))


def is_ours(code: CodeType) -> bool:
    """Whether it is a function of ours; the bodies of modules and classes run when they are imported."""
    return code.co_filename.startswith(PACKAGES) and bool(code.co_flags & inspect.CO_OPTIMIZED)


def stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def is_imported(frame: FrameType) -> bool:
    """Whether a function runs because a module is imported."""
    return any(f.f_code.co_name == "<module>" and f.f_globals.get("__name__") != "__main__" for f in stack(frame))


def depth(frame: FrameType) -> int:
    return sum(is_ours(f.f_code) and not f.f_code.co_name.endswith("comp>") for f in stack(frame))


def watch() -> None:  # in each process of the run
    profile = Watch(Path(os.environ["WHETSTONE_PATHS"]))
    threading.setprofile(profile)
    sys.setprofile(profile)


def run_small(folder: Path) -> None:
    """What is followed: a run with all its processes, and a step of route in one of its tests."""
    sets = [part for option in f"{OPTIONS} FARM_DIR={folder}/farm".split() for part in ("--set", option)]
    evolve = ["-m", "orchestrator", "evolve", "--config", str(ROOT / "configs/embedded.config"), "--output"]
    (folder / "sitecustomize.py").write_text("import paths\npaths.watch()\n")
    environment = {**os.environ, "WHETSTONE_PATHS": str(folder), "PYTHONPATH": f"{folder}:{ROOT}:{ROOT / 'benchmarks'}"}
    for arguments in ([*evolve, str(folder / "run"), *sets], ["-m", "pytest", "-n", "0", "-m", "", ROUTE_TEST]):
        subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, check=True, stdout=sys.stderr)


def of_path(name: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    """The longest time that a path was followed, once the servers that it needs were up."""
    each = [one for one in found if one["path"] == name]
    later = [one for one in each if one["began"] > min(one["ended"] for one in each)]
    return max(later or each, key=lambda one: len(one["files"]))


def main() -> None:
    from figures import table, write  # not in each process that is watched

    with tempfile.TemporaryDirectory() as folder:
        run_small(Path(folder))
        found = [json.loads(path.read_text()) for path in Path(folder).glob("*.json")]
    rows, figures = [], {}
    for name, (most, deepest) in WANTED.items():
        path = of_path(name, found)
        figures[name] = {"files": len(path["files"]), "frames": path["frames"]}
        rows.append([name, str(len(path["files"])), str(most), str(path["frames"]), str(deepest or "")])
        print("\n  ".join([name, *path["files"]]))
    print(table(["path", "files", "at most", "frames", "at most"], rows))
    write("paths", figures)


if __name__ == "__main__":
    main()
