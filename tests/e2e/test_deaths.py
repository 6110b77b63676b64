"""Every kind of process of the farm is killed in mid-generation; the run ends as if nothing had happened."""

from __future__ import annotations

import signal

import psutil
import pytest
from workplace import Workplace, finish, wait_until

KINDS = ("gpu", "openai", "cpu", "pool child", "target", "valkey", "endpoint")
PATIENCE_S = 180.0  # a quiet machine needs about 20; how long it takes is not what is tested


def victim(place: Workplace, kind: str) -> psutil.Process | None:
    """The process of the farm that plays this part now, if there is one."""
    parts = {
        "target": "workers.embedded.target",
        "valkey": "valkey-server",
        "endpoint": "workers.embedded.endpoint",
    }
    found = []
    for process in place.processes():
        try:
            line, parent = " ".join(process.cmdline()), process.parent()
            parent_line = " ".join(parent.cmdline()) if parent else ""
        except psutil.NoSuchProcess:
            continue
        queue = "cpu" if kind == "pool child" else kind
        child = f"-m workers {queue}" in parent_line
        if kind in parts:
            wanted = parts[kind] in line
        else:
            wanted = f"-m workers {queue}" in line and child == (kind == "pool child")
        if wanted:
            found.append(process)
    return found[0] if found else None


def test_no_death_changes_where_a_run_ends(undisturbed: Workplace, workplace: Workplace) -> None:
    process = workplace.start()
    seen = 0
    for kind in KINDS:
        wait_until(
            lambda n=seen: len(workplace.answered("target_requests.jsonl")) > n or process.poll() is not None,
            f"an answer before the {kind} is killed",
            PATIENCE_S,
        )
        if process.poll() is not None:
            break
        seen = len(workplace.answered("target_requests.jsonl"))
        wait_until(lambda k=kind: victim(workplace, k), f"a {kind} to kill", PATIENCE_S)
        chosen = victim(workplace, kind)
        assert chosen is not None
        chosen.send_signal(signal.SIGKILL)
    done = finish(process)
    assert done.returncode == 0, done.stdout
    assert workplace.state() == undisturbed.state()
    assert workplace.processes() == []


@pytest.mark.parametrize("kind", ["supervisor"])
def test_a_killed_supervisor_ends_the_run_with_a_reason_and_the_next_start_clears(
    undisturbed: Workplace, workplace: Workplace, kind: str
) -> None:
    process = workplace.start()
    wait_until(lambda: len(workplace.answered("target_requests.jsonl")) >= 1, "the first answer")
    [supervisor] = [p for p in workplace.processes() if "workers.embedded.supervisor" in " ".join(p.cmdline())]
    supervisor.kill()
    done = finish(process)
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stdout
    again = workplace.run()
    assert again.returncode == 0, again.stdout
    assert workplace.state() == undisturbed.state()
    assert workplace.processes() == []
