"""Breaks the program in one line at a time, and runs the tests that must notice it: `make mutants`.

Each mutant of `mutants.yaml` is applied to a copy of the tracked files; an `old` that does not occur exactly once there
is an error.  First the tests must pass without a mutant.  Ends with 1 when one that should be found is missed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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


@contextmanager
def copied_tree() -> Iterator[Path]:
    """A copy of the tracked files, with the environment of this tree."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    with tempfile.TemporaryDirectory(prefix="whetstone-mutants-") as place:
        folder = Path(place)
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        (folder / ".venv").symlink_to(ROOT / ".venv")
        yield folder


def run_tests(folder: Path, tests: Iterable[str]) -> tuple[int, str]:
    """Returns: pytest's exit status and output."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "--timeout", "120", "--no-header", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=LIMIT_S, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired:
        return FAILED, f"FAILED (no end within {LIMIT_S} s)\n"


def is_as_expected(number: int, mutant: Mutant) -> bool:
    """Run its tests in a copy that has it."""
    started = time.monotonic()
    with copied_tree() as folder:
        file = folder / mutant.file
        file.write_text(file.read_text().replace(mutant.old, mutant.new))
        status, output = run_tests(folder, mutant.tests.split())
    word = {PASSED: "missed", FAILED: "found"}.get(status, f"pytest ended with {status}")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    seconds = time.monotonic() - started
    print(f"{number:3} {word:7}{seconds:5.0f} s  {mutant.says}\n{'':14}{failed[1] if failed else ''}", flush=True)
    if status not in (PASSED, FAILED):
        print(output)
    return status == FAILED or (status == PASSED and not mutant.found)


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

    with copied_tree() as folder:
        status, output = run_tests(folder, sorted({one for m in chosen.values() for one in m.tests.split()}))
    if status != PASSED:
        print(f"{output}\nThe tests fail without a mutant.")
        return 1
    print("without a mutant the tests pass", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(is_as_expected, chosen, chosen.values()))
    print(f"{sum(outcomes)} of {len(outcomes)} as expected")
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
