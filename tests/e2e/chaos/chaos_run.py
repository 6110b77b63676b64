"""One run with fault after fault: started again as a user would, until it has ended, and then checked."""

from __future__ import annotations

import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from chaos_faults import Fault
from chaos_subject import Subject
from run_folder import LOGS, RunFolder, until

FAULTS_OF_A_RUN = 10
SESSIONS = {0: "ended", 1: "stopped", 2: "stopped", 3: "parked", -9: "killed"}  # by the status of the command
CALL_S = 360.0  # for the next answered call: longer than the timeouts of a run
END_S = 600.0
GONE_S = 30.0
MOST_SESSIONS = 25
# How many calls in flight a fault can lose: a training set at the target, one call of each thread at the endpoint.
IN_FLIGHT = {"target_requests.jsonl": 3, "endpoint_calls.jsonl": 12}


@dataclass
class Report:
    """The result of one run.  `problems` is empty for a correct run."""

    name: str
    faults: list[Fault] = field(default_factory=list)
    sessions: Counter[str] = field(default_factory=Counter)
    reasons: list[str] = field(default_factory=list)
    calls: int = 0
    repeated: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


def run_with_faults(name: str, subject: Subject, queue: deque[Fault], reference: RunFolder, sockets: Path) -> Report:
    """Take faults from the queue while the run lasts; those for which there was no time go back.

    `reference` is a finished run without faults.
    """
    report, started = Report(name), time.monotonic()
    taken: deque[Fault] = deque()
    with suppress(IndexError):  # another lane may take faults at the same time
        while len(taken) < FAULTS_OF_A_RUN:
            taken.append(queue.popleft())
    subject.start()
    seen = 0
    while not report.problems:
        if subject.ended:
            if not next_session(subject, report):
                break
            seen = subject.progress()
        elif not taken:
            if not until(lambda: subject.ended, END_S):
                report.problems.append(f"the run did not end within {END_S:.0f} s after its last fault")
        elif not until(lambda m=seen + taken[0].after: subject.progress() >= m or subject.ended, CALL_S):
            report.problems.append(f"nothing was answered for {CALL_S:.0f} s before {taken[0].name}")
        elif not subject.ended:
            if taken[0].cause(subject, sockets / f"{name}.sock"):
                report.faults.append(taken.popleft())
            else:  # it did not happen, and becomes the last
                taken.rotate(-1)
            seen = subject.progress()
    queue.extendleft(reversed(taken))
    check(subject, report, reference)
    report.seconds = time.monotonic() - started
    return report


def next_session(subject: Subject, report: Report) -> bool:
    """Record how a session ended, and start the next one.  Returns False when the run has ended."""
    assert subject.process is not None
    status, printed = subject.process.returncode, subject.output_of_session()
    if "Traceback" in printed:
        report.problems.append(f"a traceback:\n{printed}")
    if not until(lambda: not subject.folder.processes(), GONE_S):
        report.problems.append(f"processes remain: {subject.folder.processes()}")
    reasons = [line for line in printed.splitlines() if line.startswith("orchestrator: ")]
    if status not in SESSIONS or (status > 0 and not reasons):
        report.problems.append(f"status {status} without a reason:\n{printed}")
    else:
        report.sessions[SESSIONS[status]] += 1
    if status > 0:
        reason = "".join(reasons[:1]).removeprefix("orchestrator: ").replace(str(subject.folder.folder), "RUN")
        report.reasons.append(reason.replace(str(subject.socket()), "SOCKET"))
    if report.sessions.total() >= MOST_SESSIONS:
        report.problems.append(f"not ended after {MOST_SESSIONS} sessions: {report.reasons}")
    if status == 0 or report.problems:
        return False
    subject.start(retry=SESSIONS[status] == "parked")
    return True


def check(subject: Subject, report: Report, reference: RunFolder) -> None:
    """Compare the final state with the reference, and the calls that it did not repeat itself with the faults."""
    if not report.problems and subject.folder.state() != reference.state():
        report.problems.append("it ended in another state than the run without faults")
    costly = len(report.faults)
    for log in LOGS:
        times = Counter(subject.folder.answered(log))
        again = times - (Counter(times.keys()) | Counter(reference.answered(log)))
        report.calls += times.total()
        report.repeated += again.total()
        if again and max(again.values()) > costly:
            report.problems.append(f"{log}: a call was repeated {max(again.values())} times with {costly} faults")
        if again.total() > costly * IN_FLIGHT[log]:
            report.problems.append(f"{log}: {again.total()} repeated calls are more than {costly} faults explain")
