"""Breaks the program in one line at a time, and runs the tests that must notice it: `make mutants`.

Each mutant of `mutants.yaml` is applied to a copy of the tracked files; an `old` that does not occur exactly once there
is an error.  First the tests must pass without a mutant.  Ends with 1 when one that should be found is missed.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
LIMIT_S = 300  # of one mutant's tests, which a broken program may keep waiting
PASSED, FAILED = 0, 1  # exit statuses of pytest; the others say that it could not run the tests


@dataclass(frozen=True)
class Mutant:
    """A behaviour, the one line that breaks it, and the tests (paths, separated by spaces) that notice it."""

    says: str
    file: str
    old: str
    new: str
    tests: str
    found: bool = True

    def problem(self) -> str:
        """Why it cannot be applied to this tree; "" where it can."""
        file = ROOT / self.file
        times = file.read_text().count(self.old) if file.exists() else 0
        missing = [path for path in self.tests.split() if not (ROOT / path).exists()]
        if times != 1:
            return f"{self.file} has {self.old!r} {times} times, not once"
        return f"there is no {missing[0]}" if missing else ""


@dataclass(frozen=True)
class Result:
    status: int
    seconds: float
    output: str

    @property
    def failed_test(self) -> str:
        found = re.search(r"^(?:FAILED|ERROR) (\S+)", self.output, re.MULTILINE)
        return found[1] if found else ""


def copy_of_tree() -> Path:
    """The tracked files in a temporary folder, with the environment of this tree."""
    folder = Path(tempfile.mkdtemp(prefix="whetstone-mutants-"))
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


def run_tests(folder: Path, tests: list[str]) -> Result:
    started = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "--timeout", "120", "--no-header", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        output, _ = process.communicate(timeout=LIMIT_S)
        status = process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        status, output = FAILED, f"{output}\nFAILED (no end within {LIMIT_S} s)\n"
    return Result(status, time.monotonic() - started, output)


def run_mutant(folder: Path, mutant: Mutant) -> Result:
    """The tests of a mutant in a copy, which afterwards is as before."""
    original, file = ROOT / mutant.file, folder / mutant.file
    file.write_text(original.read_text().replace(mutant.old, mutant.new))
    try:
        return run_tests(folder, mutant.tests.split())
    finally:
        shutil.copy2(original, file)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", nargs="*", type=int, help="of the mutants, from 1; without any, all")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--check", action="store_true", help="only whether each can be applied")
    options = parser.parse_args()
    listed = [Mutant(**entry) for entry in yaml.safe_load(Path(__file__).with_name("mutants.yaml").read_text())]
    chosen = {n: mutant for n, mutant in enumerate(listed, 1) if not options.numbers or n in options.numbers}
    problems = [f"{n}: {mutant.problem()}" for n, mutant in chosen.items() if mutant.problem()]
    if problems or options.check:
        print("\n".join(problems) or f"all {len(chosen)} mutants can be applied")
        return 1 if problems else 0

    copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
    folders = [copy_of_tree() for _ in range(options.jobs)]
    try:
        plain = run_tests(folders[0], sorted({path for mutant in chosen.values() for path in mutant.tests.split()}))
        if plain.status != PASSED:
            print(f"{plain.output}\nThe tests fail without a mutant.")
            return 1
        print(f"without a mutant the tests pass ({plain.seconds:.0f} s)", flush=True)
        for folder in folders:
            copies.put(folder)

        def run(numbered: tuple[int, Mutant]) -> bool:
            number, mutant = numbered
            folder = copies.get()
            try:
                result = run_mutant(folder, mutant)
            finally:
                copies.put(folder)
            word = {PASSED: "missed", FAILED: "found"}.get(result.status, f"pytest ended with {result.status}")
            print(f"{number:3} {word:7}{result.seconds:5.0f} s  {mutant.says}\n{'':14}{result.failed_test}", flush=True)
            if result.status not in (PASSED, FAILED):
                print(result.output)
            return result.status == FAILED or (result.status == PASSED and not mutant.found)

        with ThreadPoolExecutor(options.jobs) as pool:
            outcomes = list(pool.map(run, chosen.items()))
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{sum(outcomes)} of {len(outcomes)} as expected")
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
