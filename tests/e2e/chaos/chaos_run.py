"""One run under fault after fault: started again like a user would, until it has ended, and then judged."""

from __future__ import annotations

import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from chaos_faults import inflict
from chaos_plan import Fault
from chaos_scene import LOGS, Scene, until

FAULTS_OF_A_RUN = 10
ENDED, STOPPED, PARKED = 0, 2, 3
CALL_S = 360.0  # for the next answered call: longer than a run's own patience
END_S = 600.0
GONE_S = 30.0
MOST_SESSIONS = 25
# A fault that may cost answers under way: a whole training set at the target, and one of the judge in each thread.
IN_FLIGHT = {"target_requests.jsonl": 3, "endpoint_calls.jsonl": 12}
HARMLESS = ("429 storm", "500s")  # no answer is lost by a call that was refused


@dataclass
class Report:
    """What became of one run.  `problems` is empty for a run that is as it should be."""

    name: str
    faults: list[Fault] = field(default_factory=list)
    sessions: Counter[str] = field(default_factory=Counter)
    reasons: list[str] = field(default_factory=list)
    calls: int = 0
    repeated: int = 0
    seconds: float = 0.0
    recoveries: list[tuple[str, float]] = field(default_factory=list)  # a fault, and seconds to the next answered call
    problems: list[str] = field(default_factory=list)


def disturb(name: str, scene: Scene, deck: deque[Fault], expected_state: str, sockets: Path) -> Report:
    """Take faults from the deck while the run lasts; those for which there was no time go back.

    `expected_state` is what `evolution_state.json` holds after a run that nobody disturbed.
    """
    report, started = Report(name), time.monotonic()
    taken: deque[Fault] = deque()
    with suppress(IndexError):  # somebody else may draw at the same time
        while len(taken) < FAULTS_OF_A_RUN:
            taken.append(deck.popleft())
    scene.start()
    seen = 0
    while not report.problems:
        if scene.ended:
            if not go_on(scene, report):
                break
            seen = scene.progress()
        elif not taken:
            if not until(lambda: scene.ended, END_S):
                report.problems.append(f"the run did not end within {END_S:.0f} s after its last fault")
        elif not until(lambda m=seen + taken[0].after: scene.progress() >= m or scene.ended, CALL_S):
            report.problems.append(f"nothing was answered for {CALL_S:.0f} s before {taken[0].name}")
        elif not scene.ended:
            if inflict(scene, taken[0], sockets / f"{name}.sock"):
                report.faults.append(taken.popleft())
                recover(scene, report)
            else:
                taken.rotate(-1)
            seen = scene.progress()
    deck.extendleft(reversed(taken))
    judge(scene, report, expected_state)
    report.seconds = time.monotonic() - started
    return report


def recover(scene: Scene, report: Report) -> None:
    """Note how long the run took to answer another call, where it did so in the same session."""
    seen, since = scene.progress(), time.monotonic()
    until(lambda: scene.progress() > seen or scene.ended, CALL_S)
    if scene.progress() > seen:
        report.recoveries.append((report.faults[-1].name, time.monotonic() - since))


def go_on(scene: Scene, report: Report) -> bool:
    """Note how a session ended, and start the next one.  Whether there is one: no after a run's end."""
    assert scene.process is not None
    status, said = scene.process.returncode, scene.output_of_session()
    if "Traceback" in said:
        report.problems.append(f"a traceback:\n{said}")
    if not until(lambda: not scene.left(), GONE_S):
        report.problems.append(f"left behind: {scene.left()}")
    if status == ENDED:
        report.sessions["ended"] += 1
        return False
    told = [line for line in said.splitlines() if line.startswith("orchestrator: ")]
    if status == -9:
        report.sessions["killed"] += 1
    elif status in (1, STOPPED, PARKED) and told:
        report.sessions["parked" if status == PARKED else "stopped"] += 1
        reason = told[0].removeprefix("orchestrator: ")
        report.reasons.append(reason.replace(str(scene.place.folder), "RUN").replace(str(scene.socket()), "SOCKET"))
    else:
        report.problems.append(f"status {status} without a reason:\n{said}")
    if sum(report.sessions.values()) >= MOST_SESSIONS:
        report.problems.append(f"not ended after {MOST_SESSIONS} sessions: {report.reasons}")
    if report.problems:
        return False
    if status == PARKED:
        scene.retry()
    else:
        scene.start()
    return True


def judge(scene: Scene, report: Report, expected_state: str) -> None:
    """Hold the run against the undisturbed one, and its calls against the faults."""
    if not report.problems and scene.place.state() != expected_state:
        report.problems.append("it ended in another state than the undisturbed run")
    costly = sum(1 for fault in report.faults if fault.kind not in HARMLESS)
    for log in LOGS:
        again = scene.repeats(log)
        report.calls += len(scene.answered(log))
        report.repeated += again.total()
        if again and max(again.values()) > costly:
            report.problems.append(f"{log}: a call was repeated {max(again.values())} times with {costly} faults")
        if again.total() > costly * IN_FLIGHT[log]:
            report.problems.append(f"{log}: {again.total()} repeated calls are more than {costly} faults explain")
