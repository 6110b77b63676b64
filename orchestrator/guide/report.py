"""What a guided run says at its end, and the tables of its page.

Every accuracy is of the label-free selection.  The held-out tickets have decided which edits were applied, so their
figures after the run are not those of new tickets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.guide.artifacts import REFLECTIONS, STATS
from orchestrator.guide.repository import GUIDANCE, read_guidance
from orchestrator.guide.settings import GuideSettings
from orchestrator.guide.tally import Tally, gate_kind
from orchestrator.report.formatting import format_count, format_percent
from orchestrator.runs.folder import read_json
from orchestrator.runs.kinds import Cell, ShownTable
from orchestrator.runs.lines import load_lines
from tasks.openai.endpoint import listed

GATES = {
    "preview": "held-out tickets decide on each edit",
    "rapid": "none, because reflection.rapid_mode is true: edits are applied without a preview",
    "no_holdout": "none, because holdout.fraction is 0: edits are applied without a preview",
}
NOT_NEW = "the held-out tickets have decided which edits are applied: new tickets will show a smaller gain"


def closing_lines(settings: GuideSettings, tallies: Sequence[Tally], folder: Path) -> list[str]:
    """The closing report of a run, for a terminal."""
    critics = {name for tally in tallies for name in tally.critic_by}
    reflectors = {name for tally in tallies for name in tally.reflection_by}
    who = "the server enforces" if settings.sampler.constrain == "three_line" else "nothing enforces"
    lines = [
        f"critic: {listed(critics)} (backend: {settings.critic.backend})"
        if settings.critic.enabled
        else "critic: none",
        f"reflector: {listed(reflectors)} (backend: {settings.reflection.backend})",
        f"form of the answers: {who} the three lines",
        f"gate: {GATES[gate_kind(settings)]}",
    ]
    for tally in tallies:
        lines += ["", *_closing_of(tally)]
    if settings.is_gated and any(tally.before for tally in tallies):
        lines += ["", f"note: {NOT_NEW}"]
    return [*lines, f"files: {folder}"]


def _closing_of(tally: Tally) -> Iterator[str]:
    rates = tally.rates()
    gates = ", ".join(f"{number} {gate}" for gate, number in sorted(Counter(tally.gates).items()))
    paired, unpaired = (
        f"{rate['count']} of {rate['of']} better" if rate["of"] else "not measured"
        for rate in (rates["precision_paired"], rates["precision_unpaired"])
    )
    recall, form = rates["recall"], rates["format_validity"]
    yield (
        f"{tally.tickets.mission}: {format_count(tally.done, 'batches')}; proposed edits: {tally.refine}, "
        f"applied: {tally.applied} ({gates})"
    )
    yield f"  reflection precision on the next batch: paired {paired}, unpaired {unpaired}"
    yield f"  recall: {recall['count']} of {recall['of']} wrongly judged tickets were named by a proposal"
    yield f"  three lines kept: {form['count']:,} of {form['of']:,} candidates"
    for name in ("majority", "greedy"):
        before, after = ((side or {}).get(name) for side in (tally.before, tally.after))
        if before and after:
            balanced, passes = (
                f"{_percent(before[key]) or 'none'} -> {_percent(after[key]) or 'none'}"
                for key in ("balanced_accuracy", "false_pass_rate")
            )
            yield (
                f"  held-out tickets, {name}: {before['right']} of {before['tickets']} right under the first guidance, "
                f"{after['right']} of {after['tickets']} right under the last "
                f"(balanced {balanced}, false passes {passes})"
            )


_MISSIONS = (
    "mission", "batches", "training tickets", "held out", "excluded", "edits proposed", "applied", "recall",
    "three lines kept", "balanced accuracy, first", "last", "false passes, first", "last",
)  # fmt: skip
_DECISIONS = (
    "step", "applied", "proposed", "decision", "uplift, points", "probability", "false passes before", "after",
    "held-out tickets",
)  # fmt: skip


def guide_tables(folder: Path) -> Sequence[ShownTable]:
    """Of a run that has not begun, none."""
    missions = {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{STATS}"))}
    if not missions:
        return ()
    all_stats = {name: read_json(path / STATS, dict[str, Any]) for name, path in missions.items()}
    about = "Accuracies are of held-out tickets, by the majority of the candidates, without labels"
    about += f"; {NOT_NEW}." if any(stats["gate"] == "preview" for stats in all_stats.values()) else "."
    tables = [ShownTable("Missions", about, _MISSIONS, [_mission(name, stats) for name, stats in all_stats.items()])]
    for name, path in missions.items():
        tables += _mission_tables(name, path)
    return tables


def _mission(name: str, stats: Mapping[str, Any]) -> list[Cell]:
    tickets, batches, reflections = stats["tickets"], stats["batches"], stats["reflections"]
    sides = [(stats["holdout"][side] or {}).get("majority") or {} for side in ("before", "after")]
    return [
        name,
        f"{batches['done']} of {batches['total']}",
        tickets["training"],
        tickets["holdout"],
        tickets["excluded"],
        reflections["acceptance"]["of"],
        reflections["applied"],
        _percent(stats["recall"]["rate"]),
        _percent(stats["format"]["rate"]),
        *(_percent(side.get("balanced_accuracy")) for side in sides),
        *(_percent(side.get("false_pass_rate")) for side in sides),
    ]


def _mission_tables(name: str, mission: Path) -> Iterator[ShownTable]:
    lines = load_lines(mission / REFLECTIONS, dict[str, Any], "reflection", is_whole=True)
    guidance = read_guidance(mission / GUIDANCE)[name].guidance
    if lines:
        about = (
            "One line for each batch. An edit answers the held-out tickets with the seeds of the old guidance first."
        )
        yield ShownTable(f"Decisions: {name}", about, _DECISIONS, [_decision(line) for line in lines])
    entries = guidance.metadata.entries
    rows: list[list[Cell]] = [
        [f"[{key}]", text, (entries[key].rationale or "") if key in entries else ""]
        for key, text in guidance.experiences.items()
    ]
    yield ShownTable(
        f"Experiences: {name}", f"What the prompt holds after step {guidance.step}.", ("key", "text", "why"), rows
    )


def _decision(line: Mapping[str, Any]) -> list[Cell]:
    figures, proposal = line["figures"] or {}, line["proposal"] or {}
    uplift = figures.get("uplift")
    return [
        line["step"],
        "yes" if line["applied"] else "no",
        "; ".join(map(_operation, proposal.get("operations", ()))),
        f"{line['gate']}: {line['gate_reason']}" if line["gate_reason"] else line["gate"],
        None if uplift is None else round(100 * uplift, 1),
        figures.get("probability"),
        _percent(figures.get("false_pass_before")),
        _percent(figures.get("false_pass_after")),
        figures.get("tickets"),
    ]


def _operation(one: Mapping[str, Any]) -> str:
    return f"{one['op']} {one['key'] or 'a new one'}: {one['text'] or ''}"


def _percent(value: float | None) -> str | None:
    return None if value is None else format_percent(value)
