"""Logs of other processes stay below a limit, and their writers continue."""

from __future__ import annotations

import stat
import subprocess
import sys
import time
from pathlib import Path

from workers.processes.log_files import LogRotation, rotate_logs

WRITER = """
import sys
for line in sys.stdin:
    print(line, end="", flush=True)
"""


def test_a_writer_continues_in_the_emptied_log(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with log.open("ab") as file:
        writer = subprocess.Popen([sys.executable, "-c", WRITER], stdin=subprocess.PIPE, stdout=file, text=True)
    assert writer.stdin is not None

    def write(text: str) -> None:
        size = log.stat().st_size
        writer.stdin.write(text + "\n")
        writer.stdin.flush()
        while log.stat().st_size == size:
            time.sleep(0.01)

    for number in range(6):
        write(f"{number} " + "x" * 2000)
        rotate_logs([log], limit=1000)
    write("the end")
    writer.stdin.close()
    writer.wait()

    assert log.read_text() == "the end\n"
    old = tmp_path / "worker.log.1"
    assert old.read_text()[0] == "5"
    assert stat.S_IMODE(old.stat().st_mode) == stat.S_IMODE(log.stat().st_mode)


def test_logs_are_rotated_until_the_rotation_is_stopped(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("x" * 2000)
    rotation = LogRotation(lambda: [log], limit=1000, every_s=0.01)
    rotation.start()
    while not log.with_name("a.log.1").exists():
        time.sleep(0.01)
    rotation.stop()
    log.write_text("y" * 2000)
    assert log.stat().st_size == 2000
