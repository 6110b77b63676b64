"""The final report of a run: the best deltas, the comparisons, the resources used, and the files."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.report.assessment import Assessment
from orchestrator.report.formatting import format_cost, format_count, format_duration, format_evaluations, format_score
from orchestrator.report.layout import format_table, truncate, wrap
from orchestrator.report.ranking import provenance, ranking
from orchestrator.report.statistics import Comparison, PairedResult, paired_sentence, paired_statistics
from tasks.escape import escape_control
from tasks.plan import Evaluations

DESCRIPTION = 60  # cells of a cluster's description


@dataclass(frozen=True)
class ResourceUsage:
    """Resources that a run used. `target_tokens` were generated; the other tokens were billed by the endpoint.

    `seconds` are those of the generations: what is measured before and after the search is in `evaluations` only.
    `unconfirmed_usd` is the most that calls with an unknown outcome may have cost.  `skipped_mutations` and
    `merge_fallbacks` count what no reply of the reflector could be used for.
    """

    seconds: float
    evaluations: Evaluations
    calls: int
    target_tokens: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float | None  # None: unknown
    budget_usd: float = 0.0
    unconfirmed_usd: float = 0.0
    skipped_mutations: int = 0
    merge_fallbacks: int = 0


@dataclass(frozen=True)
class FinalReport:
    """The contents of the final report. `descriptions` by cluster; `files` and `commands` are (label, text).

    `reflector` and `judge` name what answered: a model, or "rules of the embedded endpoint".  `assessment` is None
    where no other systems were measured: without a validation set.
    """

    run: str
    generations: int
    best_node: str
    deltas: Mapping[str, float]
    descriptions: Mapping[str, str]
    comparisons: tuple[Comparison, ...]
    reflector: str
    judge: str
    usage: ResourceUsage
    changes: tuple[tuple[int, str], ...] = ()  # settings that changed: from which generation, and their names
    files: tuple[tuple[str, str], ...] = ()
    commands: tuple[tuple[str, str], ...] = ()
    assessment: Assessment | None = None


def final_report(report: FinalReport, rng: random.Random, width: int = 80) -> str:
    """The final report in lines of at most `width` cells; long paths are not cut, so that they can be copied.

    The first lines are what was shown, where other systems were measured.

    `rng` draws the resamples of the bootstrap: the same generator gives the same text.
    """
    done = f"{format_count(report.generations, 'generations')}, search time {format_duration(report.usage.seconds)}"
    assessed = [] if report.assessment is None else _assessed(report.assessment, width)
    parts = [
        *assessed[:1],
        [
            f"Run {report.run}: {done}",
        ],
        *assessed[1:],
        _deltas(report),
        *(_comparison(comparison, rng) for comparison in report.comparisons),
        _usage(report),
        _pairs("Files", report.files),
        _pairs("Next", report.commands),
    ]
    text = "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts if part)
    return escape_control(text, keep_lines=True)


def _assessed(assessment: Assessment, width: int) -> list[list[str]]:
    """What was shown, then the figures behind it, the table of all systems, and how they were chosen."""
    first, *others = assessment.conclusion.sentences
    details = [line for sentence in others for line in _item(sentence, width)]
    return [wrap(first, width), details, ranking(assessment, width), provenance(assessment, width)]


def _item(sentence: str, width: int) -> list[str]:
    head, *rest = wrap(sentence, width - 2)
    return [f"- {head}", *(f"  {line}" for line in rest)]


def _deltas(report: FinalReport) -> list[str]:
    """One row for each cluster, in numerical order."""
    rows = [
        (cluster, f"{report.deltas[cluster]:+.3f}", truncate(report.descriptions.get(cluster, ""), DESCRIPTION))
        for cluster in sorted(report.deltas, key=int)
    ]
    title = f"Best deltas ({report.best_node}): added to the logits of each cluster's tokens"
    return [title, *(f"  {line}" for line in format_table(rows))]


def _comparison(comparison: Comparison, rng: random.Random) -> list[str]:
    """The paired statistics of one set, with an interval because the sets are small."""
    measured = paired_statistics(comparison, rng)
    unit = "question" if measured.count == 1 else "questions"
    lines = [f"Against the plain model, {comparison.name} ({measured.count} {unit})"]
    lines.append(
        f"  tokens   {measured.tokens_before:.1f} -> {measured.tokens_after:.1f} an answer{_percent(measured)}"
    )
    low, high = measured.tokens.low, measured.tokens.high
    lines.append(f"           mean change {measured.tokens.mean:+.1f}, 95 % interval {low:+.1f} to {high:+.1f}")
    lines.append(f"  correct  {measured.correct_before} -> {measured.correct_after} of {measured.count}")
    lines.append(f"           {paired_sentence(measured)}")
    if comparison.fitness_before is not None and comparison.fitness_after is not None:
        gain = comparison.fitness_after - comparison.fitness_before
        before, after = format_score(comparison.fitness_before), format_score(comparison.fitness_after)
        lines.append(f"  fitness  {before} -> {after} ({gain:+.4f})")
    return lines


def _percent(measured: PairedResult) -> str:
    if measured.tokens_before == 0:
        return ""
    return f" ({100 * (measured.tokens_after / measured.tokens_before - 1):+.1f} %)"


def _usage(report: FinalReport) -> list[str]:
    usage = report.usage
    prompt = f"{usage.prompt_tokens:,} tokens in ({usage.cached_tokens:,} cached)"
    rows = [
        ("reflected", report.reflector),
        ("judged", report.judge),
        ("evaluations", format_evaluations(usage.evaluations)),
        ("generated", f"{usage.target_tokens:,} tokens"),
        ("calls", f"{usage.calls:,}, {prompt}, {usage.completion_tokens:,} out"),
        ("cost", format_cost(usage.cost_usd, usage.budget_usd, usage.unconfirmed_usd)),
    ]
    if usage.skipped_mutations or usage.merge_fallbacks:
        rows.append(("unusable", unusable_replies(usage.skipped_mutations, usage.merge_fallbacks)))
    rows += [("changed", f"{names}, from generation {generation} on") for generation, names in report.changes]
    return _pairs("What it took", tuple(rows))


def unusable_replies(skipped_mutations: int, merge_fallbacks: int) -> str:
    """What was done without the reflector, because none of its replies could be used."""
    mutations = "1 mutation" if skipped_mutations == 1 else f"{skipped_mutations} mutations"
    merges = "1 merge" if merge_fallbacks == 1 else f"{merge_fallbacks} merges"
    parts = [f"{mutations} skipped"] if skipped_mutations else []
    parts += [f"{merges} kept the first parent's scratchpad"] if merge_fallbacks else []
    return ", ".join(parts) + ": no reply of the reflector was usable"


def _pairs(title: str, rows: tuple[tuple[str, str], ...]) -> list[str]:
    return [title, *(f"  {line}" for line in format_table(rows))] if rows else []
