"""The closing report of an evolution, put together from what the run has recorded."""

from __future__ import annotations

from orchestrator.console import command_line
from orchestrator.evolve.changes import read_changes
from orchestrator.evolve.deploy import FOLDER
from orchestrator.evolve.records import Recorder
from orchestrator.evolve.systems import PLAIN
from orchestrator.farm.connection import FarmConnection
from orchestrator.report.figures import ReportFile
from orchestrator.report.statistics import Comparison
from orchestrator.report.text import FinalReport, ResourceUsage
from orchestrator.runs.folder import OutputFolder
from orchestrator.settings import Settings
from orchestrator.settings.run import endpoint_of
from tasks.cpu.plot import COMPARISON_PLOTS, EVOLUTION_PLOTS
from tasks.openai.endpoint import is_priced, listed
from tasks.plan import Evaluations
from tasks.store.store import Store


def report_files(output: OutputFolder, report: ReportFile) -> tuple[tuple[str, str], ...]:
    """Label and path of each file.  Not every search asks a reflector, so not every run has prompts of one."""
    names = (
        *((("what goes to the server", FOLDER),) if report.winner != PLAIN else ()),
        ("the front, to choose another system", "front.json"),
        ("all figures", "report.json"),
        *((plot.title, plot.file) for plot in (*COMPARISON_PLOTS, *EVOLUTION_PLOTS)),
        *((("prompts", output.prompts.name),) if output.prompts.exists() else ()),
    )
    return tuple((title, str(output.path / name)) for title, name in names)


def build_report(
    settings: Settings,
    output: OutputFolder,
    farm: FarmConnection,
    report: ReportFile,
    recorder: Recorder,
    comparisons: tuple[Comparison, ...],
    evaluations: Evaluations,
) -> FinalReport:
    """The report of a run whose `report.json` is `report`.  `evaluations` counts those of the whole run."""
    return FinalReport(
        run=report.run,
        generations=len(recorder.history),
        report=report,
        comparisons=comparisons,
        reflector=listed(farm.store.providers(report.run, "reflector")),
        judge=listed(farm.store.providers(report.run, "judge")),
        usage=_resource_usage(settings, farm.store, report.run, recorder, evaluations),
        first_cap=settings.target_max_new_tokens,
        changes=tuple((change.generation, ", ".join(change.options)) for change in read_changes(output)),
        files=report_files(output, report),
        commands=(
            ("a page of all of it", command_line("report", output.path)),
            ("the answers, before and after", command_line("answers", output.path)),
            ("another system of the front", f"{command_line('export', output.path)} --to sglang-server --system NAME"),
            (
                "more generations",
                command_line("evolve", "--config", output.config, "--set", f"NGEN={settings.ngen + 2}"),
            ),
        ),
    )


def _resource_usage(
    settings: Settings, store: Store, run_id: str, recorder: Recorder, evaluations: Evaluations
) -> ResourceUsage:
    usage = store.usage(run_id)
    return ResourceUsage(
        seconds=sum(g["seconds"]["wall"] for g in recorder.history),
        evaluations=evaluations,
        calls=int(usage.get("requests", 0)),
        target_tokens=int(usage.get("target", 0)),
        prompt_tokens=int(usage.get("prompt", 0)),
        cached_tokens=int(usage.get("cached", 0)),
        completion_tokens=int(usage.get("completion", 0)),
        cost_usd=usage.get("cost_usd", 0.0) if is_priced(endpoint_of(settings)) else None,
        budget_usd=settings.budget_usd,
        unconfirmed_usd=store.ledger(run_id).spending().unconfirmed,
        skipped_mutations=_count(recorder, "skip_reason"),
        merge_fallbacks=_count(recorder, "merge_fallback"),
    )


def _count(recorder: Recorder, reason: str) -> int:
    """How many evaluations have this reason (see orchestrator/evolve/individuals.py)."""
    return sum(
        reason in evaluated
        for generation in recorder.history
        for evaluated in (*generation["population"], *generation["offspring"])
    )
