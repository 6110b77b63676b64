"""`make chaos SEED=7 FAULTS=200`: small runs of the real thing under faults of nine kinds, one after another.

Each run must end in the state of a run without faults, or park with a reason and end there after `orchestrator retry`;
no answered call may be repeated more often than the faults explain, and no process may remain.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from chaos_faults import KINDS, Fault, faults
from chaos_run import Report, run_with_faults
from chaos_subject import Subject
from figures import table, write
from run_folder import RunFolder

# Room for ten faults: small, but not so small that a run has ended after four.
LONGER = {"POPULATION_SIZE": "4", "NGEN": "3"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=7, help="decides which faults happen, to which process and when")
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=90.0, help="start no further run after so many minutes")
    parser.add_argument("--lanes", type=int, default=3, help="runs at the same time: a run waits most of its time")
    parser.add_argument("--kinds", nargs="*", default=[], choices=KINDS, metavar="KIND", help="only these kinds")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: stop_now(folder, 128 + number))
    planned = faults(options.seed, options.faults, options.kinds)
    if not chaos(folder, options.seed, planned, options.minutes, options.lanes):
        sys.exit(f"the folders of the failed runs are in {folder}")
    shutil.rmtree(folder)


def stop_now(folder: Path, status: int) -> None:
    """Kill all processes of the runs and exit at once."""
    RunFolder(folder).clear()
    os._exit(status)


def chaos(folder: Path, seed: int, planned: Sequence[Fault], minutes: float, lanes: int) -> bool:
    """Run after run until all faults have happened.  Returns whether every run was correct."""
    started = time.monotonic()
    reference = RunFolder(folder / "reference", dict(LONGER))
    reference.folder.mkdir()
    done = reference.run()
    if done.returncode:
        raise SystemExit(f"the reference run failed:\n{done.stdout}")
    print(f"the reference run took {time.monotonic() - started:.0f} s", flush=True)
    queue, numbers = deque(planned), itertools.count()

    def lane() -> list[Report]:
        reports = []
        while queue and time.monotonic() - started < 60 * minutes:
            number = next(numbers)
            reports.append(one_run(folder / f"run{number:03d}", number, queue, reference, folder))
            print_report(reports[-1])
        return reports

    with ThreadPoolExecutor(lanes) as pool:
        reports = [report for done in [pool.submit(lane) for _ in range(lanes)] for report in done.result()]
    return summary(seed, len(planned), reports, time.monotonic() - started)


def one_run(folder: Path, number: int, queue: deque[Fault], reference: RunFolder, sockets: Path) -> Report:
    subject = Subject(folder, LONGER, own_endpoint=number % 2 == 1)
    try:
        report = run_with_faults(folder.name, subject, queue, reference, sockets)
    finally:
        subject.close()
    if not report.problems:
        shutil.rmtree(folder, ignore_errors=True)
    return report


def print_report(report: Report) -> None:
    ends = ", ".join(f"{times} {how}" for how, times in report.sessions.items())
    print(
        f"{report.name}: {report.seconds:.0f} s, sessions: {ends}; {report.calls} calls, {report.repeated} repeated",
        f"    {len(report.faults)} faults: {', '.join(fault.name for fault in report.faults)}",
        *(f"    printed: {reason}" for reason in report.reasons),
        *(f"    PROBLEM: {problem}" for problem in report.problems),
        sep="\n",
        flush=True,
    )


def summary(seed: int, wanted: int, reports: Sequence[Report], seconds: float) -> bool:
    happened = Counter(fault.name for report in reports for fault in report.faults)
    print("\n" + table(["fault", "times"], [[name, str(times)] for name, times in sorted(happened.items())]))
    bad = [report for report in reports if report.problems]
    sessions = sum((report.sessions for report in reports), Counter[str]())
    figures = {
        "faults": happened.total(), "runs": len(reports), "as_undisturbed": len(reports) - len(bad),
        "parked": sessions["parked"], "stopped": sessions["stopped"], "killed": sessions["killed"],
        "calls": sum(r.calls for r in reports), "repeated": sum(r.repeated for r in reports), "seconds": round(seconds),
    }  # fmt: skip
    print("\n" + table([*figures], [[*map(str, figures.values())]]))
    for report in bad:
        print(f"PROBLEM in {report.name}: {'; '.join(report.problems)[:2000]}")
    more = {
        "seed": seed, "wanted": wanted, "faults": dict(happened), "sessions": dict(sessions),
        "problems": [p for r in bad for p in r.problems],
        "reasons": sorted({reason for r in reports for reason in r.reasons}),
    }  # fmt: skip
    write("chaos", figures | more)
    return not bad and happened.total() >= wanted


if __name__ == "__main__":
    main()
