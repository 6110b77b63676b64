"""The files of generated tickets: Stage-A's lines, the first experiences, and apart from them the truth."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.guide.tickets.generate import GeneratedTicket, first_guidance_values
from orchestrator.guide.tickets.plan import MissionPlan
from orchestrator.output import OutputError, write_output, writing

TICKETS, TEST, TRUTH, FIRST = "tickets.jsonl", "test.jsonl", "truth.jsonl", "guidance.json"


def write_tickets(
    folder: Path,
    plans: Sequence[MissionPlan],
    training: Iterable[GeneratedTicket],
    test: Sequence[GeneratedTicket] = (),
) -> list[Path]:
    """Write the files of these missions; returns their paths.

    Without test tickets there is no file of them afterwards: an older one would not be of the truth beside it.

    Raises: OutputNotWritable.
    """
    training = list(training)
    files = {
        folder / TICKETS: _lines(ticket.line for ticket in training),
        folder / TRUTH: _lines(dataclasses.asdict(ticket.truth) for ticket in [*training, *test]),
        folder / FIRST: _first(plans),
    }
    if test:
        files[folder / TEST] = _lines(ticket.line for ticket in test)
    else:
        with writing(folder / TEST):
            (folder / TEST).unlink(missing_ok=True)
    for path, text in files.items():
        write_output(path, text)
    return list(files)


def refuse_learned(folder: Path, plans: Sequence[MissionPlan]) -> None:
    """Raises: OutputError where the folder has other experiences, which may be what runs have learned."""
    path = folder / FIRST
    if path.exists() and path.read_text("utf-8", "replace") != _first(plans):
        raise OutputError(f"{path} holds other experiences; move it away, or give another folder")


def _first(plans: Sequence[MissionPlan]) -> str:
    return json.dumps(first_guidance_values(plans), indent=2, ensure_ascii=False) + "\n"


def _lines(values: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)
