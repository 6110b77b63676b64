"""What the page shows of an evolution, as JSON: its systems, generations, individuals with their descent, and answers.

Lists of many equal records are tables: {"columns": [...], "rows": [[...], ...]}.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from orchestrator.evolution_results import Descent, GenerationResult, IndividualResult
from orchestrator.page.packing import TextPack
from orchestrator.reflector_calls import ReflectorCall, candidate_of
from orchestrator.report.figures import ReportedSystem, SystemFigures
from orchestrator.report.intervals import mean_interval, share_interval
from orchestrator.report.statistics import Comparison
from orchestrator.report.systems import MeasuredSystem, Measurement
from orchestrator.results import RunResults

CALL_CHARACTERS = 16_000_000
"""Of the prompts and replies that a page holds; those of the winner's ancestors come first."""
DIGITS = 6  # after the point, of deltas and scores
KINDS = ("parent", "mutation", "next")

Table = dict[str, Any]


def evolution_data(results: RunResults, texts: TextPack, call_characters: int = CALL_CHARACTERS) -> dict[str, Any]:
    report, clusters = results.report, [cluster.id for cluster in results.clusters]
    if not clusters and results.best_deltas:
        clusters = list(results.best_deltas)
    names = [one.name for one in results.individuals]
    return {
        "conclusion": None if report is None else asdict(report.conclusion),
        "start": None if report is None else report.start,
        "choices": {} if report is None else dict(report.choices),
        "comparisons": [] if report is None else [asdict(pair) for pair in report.comparisons],
        "systems": systems_of(results),
        "clusters": [asdict(cluster) for cluster in results.clusters],
        "cluster_ids": clusters,
        "best_deltas": None if results.best_deltas is None else [results.best_deltas.get(one) for one in clusters],
        "generations": _generations(results),
        "individuals": _individuals(results.individuals, clusters, texts),
        "descent": _descent(results.descent, names),
        "calls": _calls(results, texts, call_characters),
        "answers": [answers_of(comparison) for comparison in results.comparisons],
    }


def systems_of(results: RunResults) -> list[dict[str, Any]]:
    """All measured systems; of a run at work, the prompts as soon as they are measured."""
    if results.report is not None:
        points = {point.name: point.is_on_front for point in results.front}
        found = [_reported(system, points.get(system.name, False)) for system in results.report.all_systems]
        winner = results.report.winner
    else:
        baselines, winner = results.baselines, None
        if baselines is None or baselines.held_out != "validation":
            return []
        found = [_measured(system) for system in baselines.systems if system.validation is not None]
        _mark_front(found, "validation")
    _mark_front(found, "test")
    return [system | {"is_winner": system["name"] == winner} for system in found]


def _reported(system: ReportedSystem, is_on_front: bool) -> dict[str, Any]:
    return {
        "name": system.name,
        "kind": system.kind,
        "prompt": system.system_prompt,
        "deltas": list(system.deltas),
        "validation": _figures(system.validation, is_on_front),
        "test": _figures(system.test),
        "against_plain": None if system.against_plain is None else asdict(system.against_plain),
    }


def _figures(figures: SystemFigures | None, is_on_front: bool = False) -> dict[str, Any] | None:
    return None if figures is None else asdict(figures) | {"is_on_front": is_on_front}


def _measured(system: MeasuredSystem) -> dict[str, Any]:
    """A prompt of a run that has no report yet."""
    assert system.validation is not None, "only measured ones are shown"
    return {
        "name": system.name,
        "kind": system.kind,
        "prompt": system.system_prompt,
        "deltas": list(system.deltas),
        "validation": _measurement(system.validation),
        "test": None,
        "against_plain": None,
    }


def _measurement(measured: Measurement) -> dict[str, Any]:
    tokens, share = mean_interval(measured.tokens, seed=0), share_interval(measured.right, len(measured.examples))
    return {
        "n": len(measured.examples),
        "mean_tokens": tokens.value,
        "mean_tokens_interval": [tokens.low, tokens.high],
        "correct": measured.right,
        "share_correct": share.value,
        "share_correct_interval": [share.low, share.high],
        "fitness": measured.fitness,
        "is_on_front": False,
    }


def _mark_front(systems: Sequence[dict[str, Any]], which: str) -> None:
    """Mark those that no other beats: fewer tokens without fewer right answers, or more right without more tokens."""
    measured = [system[which] for system in systems if system[which] is not None]
    for one in measured:
        here = (one["mean_tokens"], -one["share_correct"])
        others = ((other["mean_tokens"], -other["share_correct"]) for other in measured)
        one["is_on_front"] = not any(o != here and o[0] <= here[0] and o[1] <= here[1] for o in others)


def _generations(results: RunResults) -> list[dict[str, Any]]:
    by_name = {one.name: one for one in results.individuals}
    return [
        _generation(one, [by_name[name] for name in one.population if name in by_name]) for one in results.generations
    ]


def _generation(one: GenerationResult, population: Sequence[IndividualResult]) -> dict[str, Any]:
    tokens = [individual.mean_tokens for individual in population]
    leader = max(population, key=lambda individual: individual.fitness, default=None)
    return {
        "generation": one.generation,
        "best": one.best,
        "mean": one.mean,
        "best_ever": one.best_ever,
        "tokens_of_best": None if leader is None else leader.mean_tokens,
        "mean_tokens": math.fsum(tokens) / len(tokens) if tokens else None,
        "fewest_tokens": min(tokens, default=None),
        "evaluations": asdict(one.evaluations),
        "seconds": dict(one.seconds),
        "tokens": dict(one.tokens),
        "calls": one.calls,
        "cost_usd": one.cost_usd,
        "settings_changed": dict(one.settings_changed),
    }


COLUMNS = (
    "name", "generation", "stage", "fitness", "mean_tokens", "correctness", "target", "is_elite",
    "deltas", "scratchpad", "note",
)  # fmt: skip


def _individuals(individuals: Iterable[IndividualResult], clusters: Sequence[str], texts: TextPack) -> Table:
    """`deltas` are in the order of the clusters, null where not known; `scratchpad` is the number of a text."""
    return {"columns": COLUMNS, "rows": [_individual(one, clusters, texts) for one in individuals]}


def _individual(one: IndividualResult, clusters: Sequence[str], texts: TextPack) -> list[Any]:
    return [
        one.name,
        one.generation,
        one.stage,
        round(one.fitness, DIGITS),
        round(one.mean_tokens, DIGITS),
        round(one.correctness, DIGITS),
        one.target,
        int(one.is_elite),
        [round(one.deltas.get(cluster, 0.0), DIGITS) for cluster in clusters] if one.deltas else None,
        texts.add(one.scratchpad) if one.scratchpad else None,
        one.skip_reason or one.merge_fallback,
    ]


def _descent(edges: Iterable[Descent], names: Sequence[str]) -> list[list[int]]:
    """[place of the ancestor, place of the descendant, place of the kind in KINDS] of each edge."""
    places = {name: place for place, name in enumerate(names)}
    return [[places[edge.start], places[edge.end], KINDS.index(edge.kind)] for edge in edges]


def _calls(results: RunResults, texts: TextPack, most_characters: int) -> Table:
    """The reflector's calls by candidate, "g3_child1" or "g3_pop0"; without texts where the page would be too large."""
    first = ancestors(results)
    calls = sorted(results.reflector_calls, key=lambda call: call.candidate not in first)
    pack, rows = _Budget(texts, most_characters), []
    for call in calls:
        rows.append([call.candidate, call.file, call.title, call.provider, pack.add(call)])
    return {"columns": ("candidate", "file", "title", "provider", "texts"), "rows": rows}


class _Budget:
    """Adds the texts of calls to a pack until it has too many characters."""

    def __init__(self, texts: TextPack, characters: int) -> None:
        self._texts, self._most = texts, texts.characters + characters

    def add(self, call: ReflectorCall) -> list[int] | None:
        """The numbers of system prompt, prompt and reply; None where there is no room for them."""
        new = sum(len(text) for text in (call.system, call.user, call.reply) if text not in self._texts)
        if self._texts.characters + new > self._most:
            return None
        return [self._texts.add(text) for text in (call.system, call.user, call.reply)]


def ancestors(results: RunResults) -> set[str]:
    """The candidates of which the winner descends, and itself; of a run at work, those of its best individual."""
    by_name = {one.name: one for one in results.individuals}
    winner = results.report.winner if results.report is not None else None
    if winner not in by_name:
        best = max(results.individuals, key=lambda one: one.fitness, default=None)
        winner = None if best is None else best.name
    above: dict[str, list[str]] = defaultdict(list)
    for edge in results.descent:
        above[edge.end].append(edge.start)
    found: set[str] = set()
    todo = [winner] if winner is not None else []
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += above[name]
    return {candidate_of(name) for name in found}


def answers_of(comparison: Comparison) -> dict[str, Any]:
    """The two answers to each question of a set, side by side."""
    columns = (
        "example", "question", "gold",
        "tokens_before", "right_before", "before", "reason_before",
        "tokens_after", "right_after", "after", "reason_after",
    )  # fmt: skip
    rows = [
        [
            before.example, before.question, before.gold,
            before.tokens, int(before.is_correct), before.text, before.reasoning,
            after.tokens, int(after.is_correct), after.text, after.reasoning,
        ]
        for before, after in comparison.pairs()
    ]  # fmt: skip
    return {"name": comparison.name, "columns": columns, "rows": rows}
