"""How fast the target is on this machine, measured by a process of its own: only such a one imports torch."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from orchestrator.init.rates import Speed
from tasks import die_with_parent
from tasks.models import Example, Target
from tasks.validation import InvalidData, parse_json
from workers.queues import OPENMP_ENV

COMMAND = (sys.executable, "-m", "workers.sglang.speed")
LONGEST_S = 1800.0
STOP_S = 10.0


class NotMeasured(Exception):
    """The target did not answer; the reason is one line."""


def measure_speed(target: Target, system_prompts: Sequence[str], questions: Sequence[Example]) -> Speed:
    """Start the target's server, or use the running one of its address, and ask it some questions.

    What it is doing appears on standard error.  Raises: NotMeasured.
    """
    asked = {
        "target": dataclasses.asdict(target),
        "system_prompts": list(system_prompts),
        "questions": [[example.context, example.question] for example in questions],
    }
    threads = {"OMP_NUM_THREADS": str(os.cpu_count() or 1), "TOKENIZERS_PARALLELISM": "false"}
    offline = {"HF_HUB_OFFLINE": "1"} if target.model == "embedded" else {}
    environment = {**OPENMP_ENV, **threads, **offline, **os.environ}
    started = time.monotonic()
    # It ends, and stops its server, also where this process is killed.
    wrapper = (sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid()), str(int(signal.SIGTERM)))
    with subprocess.Popen(
        (*wrapper, *COMMAND), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        try:
            reply, _ = process.communicate(json.dumps(asked), timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            raise NotMeasured(f"it takes longer than {LONGEST_S:.0f} s") from None
        finally:
            _stop(process)
    if process.returncode:
        raise NotMeasured("the target does not answer")
    try:
        found: Speed = parse_json(Speed, reply)
    except InvalidData as error:
        raise NotMeasured(f"the reply cannot be read: {error}") from None
    # The rest of a farm starts meanwhile.  What a worker does first, such as its imports, is in a run's start as well.
    answers_s = found.first_s + found.second_s + found.full_s
    return dataclasses.replace(found, start_s=time.monotonic() - started - answers_s)


def _stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is not None:
        return
    process.terminate()  # it stops its server
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
