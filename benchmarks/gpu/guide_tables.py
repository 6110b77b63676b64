"""The tables of `guide_tickets.py`, from its records of units and what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.gpu.guide_verdicts import SAMPLED, greedy, scores
from orchestrator.guide.tickets.missions import PLANS
from tasks.guide.figures import (
    Measure,
    accuracy,
    balanced_accuracy,
    balanced_gain,
    false_pass_rate,
    majority_pairs,
    pass_at,
    share,
)
from tasks.guide.gate import TicketScores

Cell = tuple[str, str, str]  # stage, shape, prompt
Pooled = dict[str, list[TicketScores]]


def pooled(records: Sequence[Mapping[str, Any]], language: str | None = None) -> dict[Cell, Pooled]:
    """The tickets of all missions (of one language), by cell and condition."""
    found: dict[Cell, Pooled] = {}
    for record in records:
        unit, one = record["unit"], record["found"]
        if unit["stage"] == "form" or language not in (None, PLANS[unit["mission"]].language):
            continue
        cell = found.setdefault((unit["stage"], unit["shape"], unit["prompt"]), {})
        for condition, given in one["conditions"].items():
            cell.setdefault(condition, []).extend(scores(one["labels"], given["verdicts"]))
    return found


def shown(measure: Measure, *, is_gain: bool = False) -> str:
    """A figure in percent; a gain in points with its interval."""
    if measure.value is None or measure.low is None or measure.high is None:
        return "-"
    if is_gain:
        return f"{100 * measure.value:+.1f} ({100 * measure.low:+.1f} to {100 * measure.high:+.1f})"
    return f"{100 * measure.value:.1f}"


def verdict_rows(records: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    """For each cell and condition of the greedy verdicts: accuracies, also by language, and the gain over none."""
    languages = {language: pooled(records, language) for language in ("en", "zh")}
    for cell, conditions in pooled(records).items():
        for condition, tickets in conditions.items():
            judged = greedy(tickets)
            by_language = [greedy(found.get(cell, {}).get(condition, [])) for found in languages.values()]
            none = greedy(conditions["none"]) if len(conditions.get("none", [])) == len(judged) else []
            gain = shown(balanced_gain(none, judged), is_gain=True) if none and condition != "none" else ""
            yield [
                *cell, condition, str(len(judged)), shown(balanced_accuracy(judged)),
                *(shown(balanced_accuracy(pairs)) for pairs in by_language), gain,
                shown(accuracy([pair for pair in judged if pair[0] == "pass"])),
                shown(false_pass_rate(judged)), shown(share(sum(v is None for _, v in judged), len(judged))),
            ]  # fmt: skip


def sample_rows(records: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    """For each cell and condition of the samples: greedy, majority of 8, pass@8, and the share of whole answers."""
    for cell, conditions in pooled([one for one in records if one["unit"]["stage"] == "samples"]).items():
        for condition, tickets in conditions.items():
            valid = [verdict is not None for ticket in tickets for verdict in ticket.candidates]
            yield [
                *cell[1:], condition, str(len(tickets)), shown(balanced_accuracy(greedy(tickets))),
                shown(balanced_accuracy(majority_pairs(tickets))), shown(pass_at(len(SAMPLED), tickets)),
                shown(share(sum(valid), len(valid))),
            ]  # fmt: skip


def form_rows(records: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    """For each shape, prompt and temperature: answers, valid ones, and the fault that is most frequent."""
    found: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for record in records:
        if record["unit"]["stage"] == "form":
            for given in record["found"]["conditions"].values():
                for temperature, counts in given.items():
                    key = (record["unit"]["shape"], record["unit"]["prompt"], temperature)
                    found.setdefault(key, []).append(counts)
    for key, counts in sorted(found.items()):
        valid, answers = (sum(one[name] for one in counts) for name in ("valid", "answers"))
        faults: Counter[str] = Counter()
        for one in counts:
            faults.update(one["faults"])
        measure = share(valid, answers)
        worst = f"{faults.most_common(1)[0][0]} ({faults.most_common(1)[0][1]})" if faults else ""
        yield [*key, str(answers), shown(measure), f"{100 * (measure.low or 0):.1f}", worst]


HEADS = {
    "verdicts": ("stage shape prompt condition n balanced en zh over-none of-pass false-pass invalid"),
    "samples": "shape prompt condition n greedy majority pass@8 form",
    "form": "shape prompt temperature answers valid-% at-least first-fault",
}
