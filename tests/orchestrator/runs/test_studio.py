"""Files that workers make for the output folder, on a farm where nobody works but the test."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from orchestrator.dispatch import messages
from orchestrator.dispatch.producer import make_sender
from orchestrator.output import OutputFolder
from orchestrator.runs.artifacts import ArtifactRequests
from tasks.store.address import queues_url
from tasks.store.client import connect
from tasks.store.store import Store

RUN = "run"


def test_a_file_whose_message_was_lost_is_asked_for_once_more(valkey_url: str, store: Store, tmp_path: Path) -> None:
    app, broker, clock = make_sender(valkey_url), connect(queues_url(valkey_url)), count()
    studio = ArtifactRequests(app, store, RUN, OutputFolder(tmp_path))
    studio.processor("processor_best.py", [0.5])
    assert messages.drop_waiting(broker, RUN) == 1
    asked: list[int] = []

    def pause() -> None:
        if waiting := messages.count(broker, RUN):
            asked.append(waiting)
            messages.drop_waiting(broker, RUN)

    studio.wait(pause, until=20, clock=lambda: float(next(clock)))
    assert asked == [1]
    assert list(tmp_path.iterdir()) == []
