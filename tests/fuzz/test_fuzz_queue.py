"""Raw messages on the queue: an invalid one is rejected with one line and acknowledged, and changes nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from fuzz_cases import HOSTILE, JSON, cases, replaced
from fuzz_worker import PLAN, RUN, Worker, envelope, in_base64, line
from hypothesis import example, given
from hypothesis import strategies as st

STAGE = [RUN, PLAN.name, 0, "pre", 1]
JOB = [RUN, "file:" + "0" * 64, 1]
ARGUMENTS = {
    "cpu.score": STAGE,
    "cpu.gather": [RUN, PLAN.name, 1],
    **dict.fromkeys(("cpu.plot", "cpu.tokenize", "cpu.frequencies", "cpu.merge_frequencies"), JOB),
}
CALLBACKS = ("chain", "chord", "callbacks", "errbacks")
SIGNATURE = {"task": "cpu.gather", "args": [], "kwargs": {}, "options": {}, "subtask_type": None, "immutable": True}
MORE = {
    "headers": ("eta", "expires", "group", "group_index", "parent_id", "shadow", "ignore_result", "stamps", "origin",
                "stamped_headers", "argsrepr", "kwargsrepr", "replaced_task_nesting", "compression", "args"),
}  # fmt: skip


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker(tmp_path_factory.mktemp("queue"))
    try:
        worker.start()
        yield worker
    finally:
        worker.close()


@st.composite
def wrong_arguments(draw: st.DrawFn) -> bytes:
    """A valid message except for one of its arguments, or for their number."""
    task = draw(st.sampled_from(sorted(ARGUMENTS)))
    args: list[Any] = list(ARGUMENTS[task])
    kind = draw(st.sampled_from(["hostile", "missing", "more", "by name"]))
    if kind == "missing":
        args.pop(draw(st.integers(0, len(args) - 1)))
    elif kind == "more":
        args.append(draw(JSON))
    elif kind == "by name":
        return line(envelope(task, args, {draw(st.text()): draw(JSON)}))
    else:
        args[draw(st.integers(0, len(args) - 1))] = draw(HOSTILE)
    return line(envelope(task, args))


@st.composite
def wrong_envelopes(draw: st.DrawFn) -> bytes:
    """A valid message except for one part, which is missing or replaced by any value."""
    message = envelope("cpu.gather", ARGUMENTS["cpu.gather"])
    part = draw(st.sampled_from(["", "headers", "properties", "body", "callbacks"]))
    if part == "body":
        message["body"] = in_base64(json.dumps(draw(JSON)))
    elif part == "callbacks":
        callbacks = {draw(st.sampled_from(CALLBACKS)): draw(HOSTILE | st.just([SIGNATURE | draw(replaced(SIGNATURE))]))}
        message["body"] = in_base64(json.dumps([ARGUMENTS["cpu.gather"], {}, callbacks]))
    elif part:
        message[part] = draw(replaced(message[part] | dict.fromkeys(MORE.get(part, ()))))
    else:
        message = draw(replaced(message))
    return line(message)


UNKNOWN = st.builds(lambda task, args: line(envelope(task, args)), HOSTILE | st.just("celery.map"), JSON)
RANDOM = st.binary() | st.builds(lambda text: text.encode("utf-8", "replace"), st.text()) | st.builds(line, JSON)
LINES = wrong_arguments() | wrong_envelopes() | UNKNOWN | RANDOM
BATCH = 10


@cases
@given(st.lists(LINES, min_size=BATCH, max_size=BATCH))
@example([b"[" * 100_000, b'{"__type__": "datetime", "__value__": 1}', b"\xff\xfe", b"NaN"])
def test_no_message_stops_the_worker_or_changes_the_store(
    worker: Worker, tried: Counter[str], lines: list[bytes]
) -> None:
    before, pid, logged = worker.state(), worker.process.pid, len(worker.log_text())

    worker.put(*lines)
    worker.wait_idle()

    tried["messages on the queue"] += len(lines)
    assert (worker.process.alive, worker.process.pid) == (True, pid)
    assert worker.state() == before
    assert "Traceback" not in (logged_lines := worker.log_text()[logged:]), logged_lines


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"hello", "is not JSON"),
        (line([1, 2]), "a list of 2, not an object"),
        (line(envelope("cpu.dance", [])), "no task 'cpu.dance'"),
        (line(envelope("celery.map", [])), "no task 'celery.map'"),
        (line(envelope("cpu.gather", [RUN])), "missing a required argument: 'plan'"),
        (line(envelope("cpu.gather", ["../../x", "g0_pop", 1])), "run: '../../x'"),
        (line(envelope("cpu.gather", ["a\nb", "g0_pop", 1])), "run: 'a\\nb'"),
        (line(envelope("cpu.gather", ["somebody-else", "g0_pop", 1])), "no run 'somebody-else' in the store"),
        (line(envelope("cpu.gather", [RUN, "g0_pop:../", 1])), "plan: 'g0_pop:../'"),
        (line(envelope("cpu.score", [RUN, "g7_pop", 0, "pre", 1])), "no plan 'g7_pop'"),
        (line(envelope("cpu.score", [RUN, "g0_pop", 9, "pre", 1])), "no stage 9:pre:score"),
        (line(envelope("cpu.score", [RUN, "g0_pop", 0, "mut", 1])), "no stage 0:mut:score"),
        (line(envelope("cpu.score", [RUN, "g0_pop", 0, "pre", True])), "attempt: True is not a whole number"),
        (line(envelope("cpu.plot", [RUN, "../../../etc/passwd", 1])), "key: '../../../etc/passwd'"),
        (line(envelope("cpu.plot", JOB)), f"no job {JOB[1]!r} of a run"),
        (line(envelope("cpu.gather", [RUN, "g0_pop", 1], {"x": 1})), "unexpected keyword argument 'x'"),
        (
            line(envelope("cpu.gather", [*STAGE[:2], 1], {}, {"chain": [5]})),
            "'chain' is a list of 1, which is not a task with all of its arguments",
        ),
    ],
)
def test_the_reason_of_a_rejection_is_one_line(worker: Worker, message: bytes, reason: str) -> None:
    logged = len(worker.log_text())

    worker.put(message)
    worker.wait_idle()

    logged_lines = [line for line in worker.log_text()[logged:].splitlines() if "refused" in line or "dropped" in line]
    assert len(logged_lines) == 1 and reason in logged_lines[0], worker.log_text()[logged:]


def test_a_pickle_is_rejected(worker: Worker) -> None:
    message = envelope("cpu.gather", ARGUMENTS["cpu.gather"])
    message["content-type"], message["content-encoding"] = "application/x-python-serialize", "binary"

    worker.put(line(message))
    worker.wait_idle()

    assert "not JSON" in worker.log_text()
