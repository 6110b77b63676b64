"""`--step export`: the artifacts of a run once more, from its journals and without a farm."""

from __future__ import annotations

from pathlib import Path

from orchestrator.guide.artifacts import MissionFolder
from orchestrator.guide.ingest import Ingested
from orchestrator.guide.journal import JOURNAL, Journal
from orchestrator.guide.layout import read_context
from orchestrator.guide.mission import Mission
from orchestrator.guide.prompt_files import Templates
from orchestrator.guide.rejections import TooManyRejected
from orchestrator.guide.repository import GuidanceRepository
from orchestrator.guide.settings import GuideSettings
from orchestrator.guide.steps import MissionSetup
from orchestrator.guide.tally import Tally
from orchestrator.output import OutputError, OutputFolder
from tasks.guide.context import GuideContext
from tasks.guide.verifier import load_verifier
from tasks.openai.provider import is_priced


def rebuild_exports(settings: GuideSettings, ingested: Ingested, templates: Templates, folder: Path) -> None:
    """Go through the steps of every mission with the results that its journal holds.

    Raises: OutputError for a run that has not begun, or whose journals end before the run does: what they hold was
    rebuilt then.
    """
    context = read_context(OutputFolder(folder))
    if context is None:
        raise OutputError(f"{folder}: the run has asked nothing yet; --step all runs it")
    unfinished = [name for name in ingested if not _rebuild(settings, ingested, folder / name, context, templates)]
    if unfinished:
        raise OutputError(f"{folder}: not all is answered of {', '.join(unfinished)}; --step all goes on with the run")


def _rebuild(
    settings: GuideSettings, ingested: Ingested, folder: Path, context: GuideContext, templates: Templates
) -> bool:
    """Whether the journal reaches the end of the mission."""
    tickets, journal = ingested[folder.name], Journal(folder / JOURNAL)
    repository = GuidanceRepository(folder, folder.name, settings.guidance.retention)
    first = repository.start_from(Path(settings.guidance.path))
    identity = load_verifier(settings.verifier).identity if settings.verifier else ""
    setup = MissionSetup(tickets, settings, context, frozenset(journal.parked_at), identity)
    tally = Tally(settings, tickets, context.endpoint is None or is_priced(context.endpoint))
    steps = Mission(setup, templates, MissionFolder(folder), repository, first, tally).steps()
    try:
        asked = next(steps)
        while all(request.key in journal.results for request in asked):
            asked = steps.send({request.key: journal.results[request.key] for request in asked})
    except StopIteration:
        return True
    except TooManyRejected:
        return False
    return False
