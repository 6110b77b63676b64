"""The closing report: put together from what the run left behind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from orchestrator.output import OutputFolder
from orchestrator.report.comparison import Comparison
from orchestrator.report.summary import Effort, FinalReport
from orchestrator.runs.farm import OpenFarm
from orchestrator.runs.recorder import Recorder
from orchestrator.settings import Settings
from tasks.openai.answerer import listed

FILES = (
    ("the processor", "processor_best.py"),
    ("the deltas", "deltas_best.json"),
    ("fitness", "fitness.png"),
    ("lengths", "evolution_lengths.png"),
    ("tree", "evolution_tree.png"),
    ("prompts", "reflector_prompts"),
)


def closing_report(
    settings: Settings,
    output: OutputFolder,
    farm: OpenFarm,
    run_id: str,
    deltas: Mapping[str, float],
    recorder: Recorder,
    comparisons: Sequence[Comparison],
) -> FinalReport:
    usage = farm.store.usage(run_id)
    descriptions = {str(d["id"]): str(d["description"]) for d in farm.store.descriptions(run_id)}
    return FinalReport(
        run=run_id,
        generations=len(recorder.history),
        best_node=best_node(recorder),
        deltas=deltas,
        descriptions=descriptions,
        comparisons=tuple(comparisons),
        reflector=listed(farm.store.answerers(run_id, "reflector")),
        judge=listed(farm.store.answerers(run_id, "judge")),
        effort=Effort(
            seconds=sum(g["seconds"]["wall"] for g in recorder.history),
            evaluations=sum(node["fitness"] is not None for node in recorder.tree.nodes),
            calls=int(usage.get("requests", 0)),
            target_tokens=int(usage.get("target", 0)),
            prompt_tokens=int(usage.get("prompt", 0)),
            cached_tokens=int(usage.get("cached", 0)),
            completion_tokens=int(usage.get("completion", 0)),
            cost_usd=usage.get("cost_usd", 0.0),
            budget_usd=settings.budget_usd,
            unheard_usd=farm.store.ledger(run_id).money().unheard,
        ),
        files=tuple((what, str(output.path / name)) for what, name in FILES),
        commands=(
            ("the answers, before and after", f"orchestrator answers {output.path}"),
            ("more generations", f"orchestrator evolve --config {output.config} --set NGEN={settings.ngen + 2}"),
        ),
    )


def best_node(recorder: Recorder) -> str:
    """The first node with the highest fitness: the tree holds every evaluated individual."""

    def fitness(node: Mapping[str, object]) -> float:
        value = node["fitness"]
        return value if isinstance(value, float) else -math.inf

    return str(max(recorder.tree.nodes, key=fitness)["id"]) if recorder.tree.nodes else ""
