"""What is printed when a run ends: the deltas, what they changed, what it took, and where everything is."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.report.formatting import duration, score, spent
from orchestrator.report.statistics import Change, Comparison, change, verdict
from orchestrator.terminal_text import clip, neutral, pad

BAR = 9  # cells on each side of zero
EIGHTHS = " ▏▎▍▌▋▊▉█"


@dataclass(frozen=True)
class ResourceUsage:
    """What a run took. Tokens: `target` were generated, `prompt`, `cached` and `completion` billed by the endpoint.

    `unconfirmed_usd` is the most that calls may have cost whose answers nobody heard.
    """

    seconds: float
    evaluations: int
    calls: int
    target_tokens: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float
    budget_usd: float = 0.0
    unconfirmed_usd: float = 0.0


@dataclass(frozen=True)
class FinalReport:
    """All that the closing report says. `descriptions` by cluster; `files` and `commands` as (what, how) pairs.

    `reflector` and `judge` as a person should read them: a model's name, or "rules of the embedded endpoint".
    """

    run: str
    generations: int
    best_node: str
    deltas: Mapping[str, float]
    descriptions: Mapping[str, str]
    comparisons: tuple[Comparison, ...]
    reflector: str
    judge: str
    effort: ResourceUsage
    files: tuple[tuple[str, str], ...] = ()
    commands: tuple[tuple[str, str], ...] = ()


def final_report(report: FinalReport, rng: random.Random, width: int = 80) -> str:
    """The closing report in lines of at most `width` cells, but for long paths, which stay whole to be copied.

    `rng` draws the bootstrap's resamples: the same generator gives the same text.
    Raises: ValueError when a comparison is empty or its sides do not match.
    """
    parts = [
        [f"Run {neutral(report.run)}: {report.generations} generations in {duration(report.effort.seconds)}"],
        _deltas(report, width),
        *(_comparison(comparison, rng) for comparison in report.comparisons),
        _effort(report),
        _pairs("Files", report.files),
        _pairs("Next", report.commands),
    ]
    return "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts if part)


def _deltas(report: FinalReport, width: int) -> list[str]:
    """One row a cluster in the canonical order, with a bar around zero."""
    lines = [f"Best deltas ({neutral(report.best_node)}): added to the logits of each cluster's tokens"]
    largest = max((abs(value) for value in report.deltas.values()), default=0.0)
    for cluster in sorted(report.deltas, key=int):
        value = report.deltas[cluster]
        head = f"  {cluster:>4} {value:>+8.3f} {_bar(value, largest)}  "
        described = clip(neutral(report.descriptions.get(cluster, "")), max(10, width - len(head)))
        lines.append(head + described)
    return lines


def _bar(value: float, largest: float) -> str:
    """A bar to the left or to the right of a middle line; a value that is not zero always shows."""
    eighths = round(abs(value) / largest * BAR * 8) if largest > 0 else 0
    if value != 0:
        eighths = max(1, eighths)
    full, part = divmod(eighths, 8)
    if value < 0:
        # No character fills a cell from the right by eighths: whole and half cells are what there is.
        left = ("▐" if part >= 4 or not full else "") + "█" * full
        return f"{left:>{BAR}}│{'':{BAR}}"
    return f"{'':{BAR}}│{'█' * full + EIGHTHS[part].strip():{BAR}}"


def _comparison(comparison: Comparison, rng: random.Random) -> list[str]:
    """The paired measures; intervals beside every mean (the sets are small)."""
    measured = change(comparison, rng)
    unit = "question" if measured.count == 1 else "questions"
    lines = [f"Against the zero vector, {neutral(comparison.name)} ({measured.count} {unit})"]
    lines.append(
        f"  tokens   {measured.tokens_before:.1f} -> {measured.tokens_after:.1f} an answer{_percent(measured)}"
    )
    low, high = measured.tokens.low, measured.tokens.high
    lines.append(f"           mean change {measured.tokens.mean:+.1f}, 95 % interval {low:+.1f} to {high:+.1f}")
    lines.append(f"  correct  {measured.correct_before} -> {measured.correct_after} of {measured.count}")
    lines.append(f"           {verdict(measured)}")
    if comparison.fitness_before is not None and comparison.fitness_after is not None:
        gain = comparison.fitness_after - comparison.fitness_before
        before, after = score(comparison.fitness_before), score(comparison.fitness_after)
        lines.append(f"  fitness  {before} -> {after} ({gain:+.4f})")
    return lines


def _percent(measured: Change) -> str:
    if measured.tokens_before == 0:
        return ""
    return f" ({100 * (measured.tokens_after / measured.tokens_before - 1):+.1f} %)"


def _effort(report: FinalReport) -> list[str]:
    effort = report.effort
    prompt = f"{effort.prompt_tokens:,} tokens in ({effort.cached_tokens:,} cached)"
    rows = [
        ("reflected", report.reflector),
        ("judged", report.judge),
        ("evaluations", f"{effort.evaluations:,}, {effort.target_tokens:,} tokens generated"),
        ("calls", f"{effort.calls:,}, {prompt}, {effort.completion_tokens:,} out"),
        ("cost", spent(effort.cost_usd, effort.budget_usd, effort.unconfirmed_usd)),
    ]
    return _pairs("What it took", tuple(rows))


def _pairs(title: str, rows: tuple[tuple[str, str], ...]) -> list[str]:
    if not rows:
        return []
    longest = max(len(neutral(name)) for name, _ in rows)
    return [title, *(f"  {pad(neutral(name), longest)}  {neutral(value)}" for name, value in rows)]
