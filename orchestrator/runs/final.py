"""After the last generation: the best individual and the zero vector on the same questions, and the closing report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.dispatch.evaluator import FarmEvaluator
from orchestrator.farm.connection import FarmConnection
from orchestrator.optimisers.base import Best
from orchestrator.output import OutputFolder
from orchestrator.report.statistics import Comparison, JudgedAnswer
from orchestrator.report.summary import FinalReport, ResourceUsage
from orchestrator.runs.artifacts import Recorder
from orchestrator.runs.changes import judged_since, read_changes
from orchestrator.runs.patience import stop_reason
from orchestrator.settings import Settings
from orchestrator.settings.run import endpoint_of
from tasks.cpu.plot import EVOLUTION_PLOTS
from tasks.exports import EXPORTS
from tasks.models import Example
from tasks.openai.provider import is_priced, listed
from tasks.plan import Candidate, Evaluations, Outcome, Plan, StageRef
from tasks.store.store import Store

FINAL = "final"  # the name of the plan
SETS = {"training": "training set", "validation": "validation set, which nobody saw"}


def final_plan(best: Best, generation: int, *, validation: bool) -> Plan:
    """Zero vector and best individual, on the training set and, where there is one, on the validation set."""
    zero = (0.0,) * len(best.deltas)
    candidates = [Candidate(0, zero), Candidate(1, best.deltas)]
    if validation:
        candidates += [Candidate(2, zero, examples="validation"), Candidate(3, best.deltas, examples="validation")]
    return Plan(FINAL, generation, tuple(candidates))


def compare(
    evaluate: FarmEvaluator, plan: Plan, examples: Mapping[str, Sequence[Example]]
) -> tuple[tuple[Comparison, ...], Evaluations]:
    """The comparisons that the plan's candidates make up, in pairs, and its evaluations.  Raises: Parked.

    All verdicts of a plan are of one judge: with another judge its records are deleted (orchestrator/runs/changes.py).
    """
    outcomes = evaluate(plan)
    comparisons = tuple(
        _comparison(evaluate.dispatcher.store, evaluate.dispatcher.run_id, plan, outcomes[i : i + 2], examples)
        for i in range(0, len(outcomes), 2)
    )
    return comparisons, sum((outcome.evaluations for outcome in outcomes), Evaluations())


def _comparison(
    store: Store, run_id: str, plan: Plan, pair: Sequence[Outcome], examples: Mapping[str, Sequence[Example]]
) -> Comparison:
    before, after = (plan.candidate(outcome.index) for outcome in pair)
    asked = examples[before.examples]
    return Comparison(
        name=SETS[before.examples],
        before=_graded(store, run_id, plan, before, asked),
        after=_graded(store, run_id, plan, after, asked),
        fitness_before=pair[0].pre.fitness,
        fitness_after=pair[1].pre.fitness,
    )


def _graded(
    store: Store, run_id: str, plan: Plan, candidate: Candidate, examples: Sequence[Example]
) -> tuple[JudgedAnswer, ...]:
    """A candidate's answers with their verdicts, as the record and the shared results have them."""
    answers = (store.stage(run_id, plan.name, StageRef(candidate.index, "answer", "pre").field) or {})["answers"]
    verdicts = (store.stage(run_id, plan.name, StageRef(candidate.index, "judge", "pre").field) or {})["verdicts"]
    texts = store.shared(run_id, [a["key"] for a in answers])
    reasons = store.shared(run_id, [v["key"] for v in verdicts])
    samples = len(answers) // len(examples)  # in a row for each question: the first one is compared
    return tuple(
        JudgedAnswer(
            example=example.id,
            tokens=answer["tokens"],
            is_correct=verdict["is_correct"],
            text=texts[answer["key"]]["text"],
            question=example.question,
            gold=example.gold,
            reasoning=reasons[verdict["key"]]["reasoning"],
        )
        for example, answer, verdict in zip(examples, answers[::samples], verdicts[::samples], strict=True)
    )


FILES = (
    *((export.title, export.file) for export in EXPORTS if export.title),
    ("the deltas", "deltas_best.json"),
    *((plot.title, plot.file) for plot in EVOLUTION_PLOTS),
    ("prompts", "reflector_prompts"),
)


def build_report(
    settings: Settings,
    output: OutputFolder,
    farm: FarmConnection,
    run_id: str,
    deltas: Mapping[str, float],
    recorder: Recorder,
    comparisons: Sequence[Comparison],
    evaluations: Evaluations,
) -> FinalReport:
    changes = read_changes(output)
    usage = farm.store.usage(run_id)
    descriptions = {str(d["id"]): str(d["description"]) for d in farm.store.descriptions(run_id)}
    return FinalReport(
        run=run_id,
        generations=len(recorder.history),
        best_node=best_node(recorder, judged_since(changes)),
        deltas=deltas,
        descriptions=descriptions,
        comparisons=tuple(comparisons),
        reflector=listed(farm.store.providers(run_id, "reflector")),
        judge=listed(farm.store.providers(run_id, "judge")),
        usage=ResourceUsage(
            seconds=sum(g["seconds"]["wall"] for g in recorder.history),
            evaluations=evaluations,
            calls=int(usage.get("requests", 0)),
            target_tokens=int(usage.get("target", 0)),
            prompt_tokens=int(usage.get("prompt", 0)),
            cached_tokens=int(usage.get("cached", 0)),
            completion_tokens=int(usage.get("completion", 0)),
            cost_usd=usage.get("cost_usd", 0.0) if is_priced(endpoint_of(settings)) else None,
            budget_usd=settings.budget_usd,
            unconfirmed_usd=farm.store.ledger(run_id).spending().unconfirmed,
            skipped_mutations=_count(recorder, "skip_reason"),
            merge_fallbacks=_count(recorder, "merge_fallback"),
        ),
        changes=tuple((change.generation, ", ".join(change.options)) for change in changes),
        files=tuple((what, str(output.path / name)) for what, name in FILES),
        stopped=stop_reason(recorder.history, settings.patience, settings.ngen, judged_since(changes)),
        commands=(
            ("the answers, before and after", f"orchestrator answers {output.path}"),
            ("more generations", f"orchestrator evolve --config {output.config} --set NGEN={settings.ngen + 2}"),
        ),
    )


def _count(recorder: Recorder, reason: str) -> int:
    """How many evaluations have this reason (see orchestrator/runs/individuals.py)."""
    return sum(
        reason in evaluated
        for generation in recorder.history
        for evaluated in (*generation["population"], *generation["offspring"])
    )


def best_node(recorder: Recorder, since: int = 0) -> str:
    """The first node with the highest fitness, of the generations that the current judge judged.

    The best individual of earlier generations is in none of them; it is then named by what it is.
    """
    best = recorder.tree.best_node(since)
    highest = recorder.history[-1]["best_ever"] if recorder.history else None
    if since and (best is None or best["fitness"] != highest):
        return f"the best of the generations before {since}"
    return str(best["id"]) if best else ""
