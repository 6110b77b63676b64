"""What the page shows of an evolution: its systems, its search with the descent of individuals, and its answers."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from orchestrator.commands.export import engines_for
from orchestrator.evolve.front import front
from orchestrator.evolve.records import Individual
from orchestrator.evolve.systems import Measurement, Point, System
from orchestrator.page.formats import number, plural, visible
from orchestrator.report.figures import Figures, ReportedSystem, figures_of
from orchestrator.report.statistics import JudgedAnswer
from orchestrator.results import ReflectorCall, RunResults

SETS = ("validation", "test", "ordering", "training")
PROMPT_CHARACTERS = 8_000_000
"""Of the reflector's prompts; a page names the files of more."""
DESCENT = ("parent", "mutation", "next")
INDIVIDUAL = ("node", "generation", "stage", "fitness", "mean_tokens", "correctness", "arm", "target", "scratchpad")
TAGS = ("changed", "lost", "gained", "cut after", "wrong after")


def evolution_data(results: RunResults) -> dict[str, Any]:
    report, systems, generations = results.report, systems_of(results), results.generations
    return {
        "report": report,
        "systems": systems,
        "plain": next((one for one in systems if one["kind"] == "plain"), None),
        "sets": {
            which: f"{which}, {plural(max(counts), 'question')}"
            for which in SETS
            if (counts := [one[which]["n"] for one in systems if one[which]])
        },
        "answered": generations[-1].get("answered", {}) if generations else {},
        "answers": [answer_set(one.name, TAGS, one.pairs(), _tags) for one in reversed(results.comparisons)],
        "charts": {
            "systems": systems,
            "clusters": {
                arm.clustering: [asdict(one) | {"examples": [*map(visible, one.examples)]} for one in arm.clusters]
                for arm in results.arms
            },
            "columns": ("name", *INDIVIDUAL[1:], "note", "deltas"),
            "individuals": _individuals(results),
            "descent": _descent(results),
            "calls": _calls(results.reflector_calls),
            "winner": report.winner if report else "",
        },
    }


def systems_of(results: RunResults) -> list[dict[str, Any]]:
    """All measured systems, the winner and the plain model first; of a run at work, as far as they are measured."""
    report = results.report
    measured = report.systems if report else results.book.systems
    systems = [_system(one, results.settings) for one in measured if any(getattr(one, which) for which in SETS)]
    for one in systems:
        engines = engines_for(one["kind"], one["deltas"])
        command = ["orchestrator", "export", str(results.folder), "--system", one["name"], "--to", *engines[:1]]
        one |= {"engines": ", ".join(engines), "command": shlex.join(command) if engines else ""}
        one["is_winner"] = bool(report and report.winner == one["name"])
    for which in SETS:
        asked = [one for one in systems if one[which]]
        for place in front([Point(f["mean_tokens"], f["correct"] / f["n"]) for f in (one[which] for one in asked)]):
            asked[place]["best_on"].append(which)
    return sorted(systems, key=lambda one: (not one["is_winner"], one["kind"] != "plain"))


def _system(one: ReportedSystem | System, settings: Mapping[str, str]) -> dict[str, Any]:
    return {
        **{name: getattr(one, name) for name in ("name", "kind", "system_prompt", "deltas", "clustering")},
        **{which: _figures(getattr(one, which), int(settings.get("SEED", 0))) for which in SETS},
        "ends": ends_of(one, settings.get("WHOLE") != "n"),
        "passed": isinstance(one, ReportedSystem) and one.passed,
        "best_on": [],
    }


def _figures(found: Measurement | Figures | None, seed: int) -> dict[str, Any] | None:
    return None if found is None else asdict(figures_of(found, seed) if isinstance(found, Measurement) else found)


def ends_of(system: ReportedSystem | System, is_whole: bool) -> str:
    """How the answers of a system end, in words."""
    if system.kind == "cut":
        return f"cut at {system.max_tokens} tokens" if system.max_tokens else "after their first sentence"
    raised = system.deltas[0] if system.deltas else 0.0
    where = " after a sentence" if is_whole else ""
    return f"by themselves; {number(raised, 2)} is added to the end of a turn{where}" if raised else "by themselves"


def _individuals(results: RunResults) -> list[list[Any]]:
    def note(one: Individual) -> str:
        elite = "kept as elite" if one.node in results.elites else ""
        return "; ".join(filter(None, (elite, one.skip_reason, one.merge_fallback)))

    found = results.individuals
    return [[*(getattr(one, name) for name in INDIVIDUAL), note(one), [*one.deltas.values()]] for one in found]


def _calls(found: Sequence[ReflectorCall]) -> list[tuple[str, ...]]:
    """(candidate, for example "g3_child1", title, who answered, reply, prompt) of each call."""
    is_large = sum(len(one.user) for one in found) > PROMPT_CHARACTERS
    prompts = [f"reflector_prompts/{one.file}" if is_large else one.user for one in found]
    return [(one.candidate, one.title, one.provider, one.reply, text) for one, text in zip(found, prompts, strict=True)]


def _descent(results: RunResults) -> list[tuple[int, int, int]]:
    """(place of the ancestor, place of the descendant, place of the kind in DESCENT) of each edge."""
    places = {one.node: place for place, one in enumerate(results.individuals)}
    return [(places[edge["from"]], places[edge["to"]], DESCENT.index(edge["kind"])) for edge in results.descent]


Pair = tuple[JudgedAnswer, JudgedAnswer]


def answer_set(
    name: str, tags: Sequence[str], pairs: Iterable[Pair], tags_of: Callable[[JudgedAnswer, JudgedAnswer], list[str]]
) -> dict[str, Any]:
    """The two answers to each question, side by side with their tags; counts: how many have a tag, "" are all."""
    rows = [(before, after, tags_of(before, after)) for before, after in pairs]
    counts = {tag: f"{tag} {sum(tag in has for _, _, has in rows)}" for tag in tags}
    return {"name": name, "counts": {"": f"all {len(rows)}", **counts}, "rows": rows}


def _tags(before: JudgedAnswer, after: JudgedAnswer) -> list[str]:
    lost, gained = before.is_correct and not after.is_correct, after.is_correct and not before.is_correct
    holds = (before.text != after.text, lost, gained, not after.is_whole, not after.is_right)
    return [tag for tag, is_so in zip(TAGS, holds, strict=True) if is_so]
