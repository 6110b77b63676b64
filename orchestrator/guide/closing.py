"""What a guided run says at its end: who wrote what, what the gate did, and how the held-out tickets came out.

Every accuracy is of the label-free selection.  The held-out tickets have decided which edits were applied, so their
figures after the run are not those of new tickets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchestrator.guide.settings import GuideSettings
from orchestrator.guide.tally import Tally, gate_kind
from orchestrator.report.formatting import format_count, format_percent
from tasks.openai.provider import listed

NOT_NEW = "the held-out tickets have decided which edits are applied: new tickets will show a smaller gain"


def closing_lines(settings: GuideSettings, tallies: Sequence[Tally], folder: Path) -> list[str]:
    """The closing report of a run, for a terminal."""
    form = "the server enforces the three lines" if settings.sampler.constrain == "three_line" else "nothing enforces"
    lines = [
        f"critic: {_who(settings.critic.backend if settings.critic.enabled else '', _names(tallies, 'critic_by'))}",
        f"reflector: {_who(settings.reflection.backend, _names(tallies, 'reflection_by'))}",
        f"form of the answers: {form if settings.sampler.constrain != 'none' else 'nothing enforces the three lines'}",
        f"gate: {_gate(settings)}",
    ]
    for tally in tallies:
        lines += ["", *_mission(tally)]
    if settings.is_gated and any(tally.before for tally in tallies):
        lines += ["", f"note: {NOT_NEW}"]
    return [*lines, f"files: {folder}"]


def _mission(tally: Tally) -> list[str]:
    counts, stats = tally.counts(), Counter(tally.gates)
    gates = ", ".join(f"{number} {gate}" for gate, number in sorted(stats.items()))
    lines = [
        f"{tally.tickets.mission}: {format_count(tally.done, 'batches')}; proposed edits: {counts['proposals']}, "
        f"applied: {counts['applied']} ({gates})",
        f"  reflection precision on the next batch: paired {_of(counts, 'paired')}, unpaired {_of(counts, 'unpaired')}",
        f"  recall: {counts['surfaced']} of {counts['wrong']} wrongly judged tickets were named by a proposal",
        f"  three lines kept: {counts['valid']:,} of {counts['candidates']:,} candidates",
    ]
    for name in ("majority", "greedy"):
        lines += _held_out(tally, name)
    return lines


def _held_out(tally: Tally, name: str) -> list[str]:
    before, after = ((side or {}).get(name) for side in (tally.before, tally.after))
    if before is None or after is None:
        return []
    return [
        f"  held-out tickets, {name}: {_judged(before)} under the first guidance, {_judged(after)} under the last "
        f"(balanced {_share(before['balanced_accuracy'])} -> {_share(after['balanced_accuracy'])}, "
        f"false passes {_share(before['false_pass_rate'])} -> {_share(after['false_pass_rate'])})"
    ]


def _judged(value: dict[str, Any]) -> str:
    return f"{value['right']} of {value['tickets']} right"


def _share(value: float | None) -> str:
    return "none" if value is None else format_percent(value)


def _of(counts: dict[str, int], name: str) -> str:
    measured = counts[f"{name}_measured"]
    return f"{counts[f'{name}_improved']} of {measured} better" if measured else "not measured"


def _gate(settings: GuideSettings) -> str:
    match gate_kind(settings):
        case "preview":
            return (
                f"uplift on held-out tickets at least {settings.reflection.apply_if_delta:g}, its probability at least "
                f"{settings.holdout.min_probability:g}, false passes up by at most "
                f"{settings.holdout.max_false_pass_rise:g}"
            )
        case "rapid":
            return "none, because reflection.rapid_mode is true: edits are applied without a preview"
        case _:
            return "none, because holdout.fraction is 0: edits are applied without a preview"


def _who(backend: str, names: set[str]) -> str:
    if not backend:
        return "none"
    return f"{listed(names)} (backend: {backend})"


def _names(tallies: Sequence[Tally], name: str) -> set[str]:
    return {one for tally in tallies for one in getattr(tally, name)}
