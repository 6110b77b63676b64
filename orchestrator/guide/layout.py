"""What stands in a run's folder before the first batch: the shuffles, the first counts, and who answers."""

from __future__ import annotations

import json
from pathlib import Path

from orchestrator.guide.artifacts import MissionFolder
from orchestrator.guide.ingest import MissionTickets, epoch_batches, shuffle_lines
from orchestrator.guide.settings import GuideSettings
from orchestrator.guide.tally import Tally
from orchestrator.output import OutputFolder, read_state
from tasks.guide.context import GuideContext
from tasks.guide.experiences import Guidance

CONTEXT_FILE = "context.json"


def write_ingest(folder: Path, settings: GuideSettings, tickets: MissionTickets, first: Guidance) -> None:
    """`epoch_k/shuffled_data.jsonl` of each epoch, and the first `stats.json` where a run has not counted further."""
    mission = MissionFolder(folder)
    for number in range(1, settings.runner.epochs + 1):
        epoch = epoch_batches(tickets.training, settings, number)
        mission.write_lines(f"epoch_{number}/shuffled_data.jsonl", "shuffled_data", shuffle_lines(epoch))
    mission.write_stats(Tally(settings, tickets).stats(first, is_finished=False))


def keep_context(output: OutputFolder, context: GuideContext) -> None:
    """Who answers in this run: the keys of all results cover it."""
    output.write_state(CONTEXT_FILE, json.loads(context.to_json()))


def read_context(output: OutputFolder) -> GuideContext | None:
    """None for a run that has not begun.  Raises: OutputError."""
    try:
        return read_state(output.path / CONTEXT_FILE, GuideContext)
    except FileNotFoundError:
        return None
