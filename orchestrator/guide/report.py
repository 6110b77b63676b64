"""What a guided run says of itself: in `status`, at its end, and in the tables of its page.

The held-out tickets have decided which edits were applied, so their figures after the run are not those of new tickets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.console import format_count
from orchestrator.guide.guidance import GUIDANCE, read_guidance
from orchestrator.guide.tally import Value
from orchestrator.report.format import format_percent
from orchestrator.runs.folder import load_lines, read_json
from orchestrator.runs.kinds import Cell, Figures, ProgressFile, ShownTable
from tasks.guide.choose import share
from tasks.openai.endpoint import join_providers

STATS, REFLECTIONS, UNIT = "stats.json", "reflection.jsonl", "batches"
GATES = {
    "preview": "held-out tickets decide on each edit",
    "rapid": "none, because reflection.rapid_mode is true: edits are applied without a preview",
    "no_holdout": "none, because holdout.fraction is 0: edits are applied without a preview",
}
NOT_NEW = "the held-out tickets have decided which edits are applied: new tickets will show a smaller gain"


def progress_of(all_stats: Sequence[Value], *, is_finished: bool) -> ProgressFile:
    """The progress of a run, from the figures of its missions."""
    counted, of = Counter[str](), Counter[str]()
    for stats in all_stats:
        rates = {
            "acceptance_rate": stats["reflections"]["acceptance"],
            "precision_paired": stats["precision"]["paired"],
            "precision_unpaired": stats["precision"]["unpaired"],
            "recall": stats["recall"],
            "format_validity": stats["format"],
        }
        for name, rate in rates.items():
            counted[name] += rate["count"]
            of[name] += rate["of"]
    figures: dict[str, float | None] = {
        "proposals": float(of["acceptance_rate"]),
        "applied": float(counted["acceptance_rate"]),
        "wrong": float(of["recall"]),
        **{name: share(counted[name], of[name]) for name in of},
    }
    done, total = (sum(stats["batches"][name] for stats in all_stats) for name in ("done", "total"))
    return ProgressFile(done=done, total=total, is_finished=is_finished, figures=figures)


def guide_figure_lines(figures: Figures) -> Sequence[tuple[str, str]]:
    """As `orchestrator status` shows them."""
    if figures.get("proposals") is None:
        return ()

    def percent(name: str) -> str:
        value = figures.get(name)
        return "not measured" if value is None else f"{value:.0%}"

    applied, proposals, wrong = (figures.get(name) or 0 for name in ("applied", "proposals", "wrong"))
    paired, unpaired = percent("precision_paired"), percent("precision_unpaired")
    return (
        ("edits", f"{applied:,.0f} applied of {proposals:,.0f} proposed"),
        ("precision", f"{paired} paired, {unpaired} unpaired, of applied edits with a next batch"),
        ("recall", f"{percent('recall')} of {wrong:,.0f} wrongly judged tickets were named"),
        ("three lines", f"{percent('format_validity')} of the candidates"),
    )


def guide_summary(figures: Figures) -> str:
    if (proposals := figures.get("proposals")) is None:
        return ""
    return f"{figures.get('applied') or 0:,.0f} of {proposals:,.0f} edits applied"


def closing_lines(all_stats: Sequence[Value], folder: Path) -> list[str]:
    """The closing report, for a terminal."""
    who, gate = all_stats[0]["who"], all_stats[0]["gate"]
    critics, reflectors = (
        join_providers({name for one in all_stats for name in one["who"][key]})
        for key in ("critic_by", "reflection_by")
    )
    is_off = who["critic_backend"] == "none"
    lines = [
        "critic: none" if is_off else f"critic: {critics} (backend: {who['critic_backend']})",
        f"reflector: {reflectors} (backend: {who['reflection_backend']})",
        f"form of the answers: {'the server' if who['constrained'] else 'nothing'} enforces the three lines",
        f"gate: {GATES[gate]}",
    ]
    figures = progress_of(all_stats, is_finished=True)["figures"]
    lines += [f"{name}: {value}" for name, value in guide_figure_lines(figures)]
    for one in all_stats:
        lines += ["", *_closing_of(one)]
    if gate == "preview":
        lines += ["", f"note: {NOT_NEW}"]
    return [*lines, f"files: {folder}"]


def _closing_of(stats: Value) -> Iterator[str]:
    reflections = stats["reflections"]
    gates = ", ".join(f"{number} {gate}" for gate, number in reflections["by_gate"].items())
    diff = (stats["against_greedy"] or {}).get("all_tickets")
    yield (
        f"{stats['mission']}: {format_count(stats['batches']['done'], 'batches')}; proposed edits: "
        f"{reflections['refine']}, applied: {reflections['applied']} ({gates})"
    )
    for name in ("majority", "greedy"):
        before, after = ((stats["holdout"][side] or {}).get(name) for side in ("before", "after"))
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
    if diff:
        yield (
            f"  all {diff['tickets']} tickets, selections against greedy answers: {diff['pass_delta']:+d} pass, "
            f"{diff['fail_delta']:+d} fail, {diff['right_delta']:+d} right; {sum(diff['warnings'].values())} warnings"
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
    all_stats = {name: read_json(path / STATS, Value) for name, path in missions.items()}
    about = "Accuracies are of held-out tickets, by the majority of the candidates, without labels"
    about += f"; {NOT_NEW}." if any(stats["gate"] == "preview" for stats in all_stats.values()) else "."
    tables = [ShownTable("Missions", about, _MISSIONS, [_mission(name, stats) for name, stats in all_stats.items()])]
    for name, path in missions.items():
        if lines := load_lines(path / REFLECTIONS, Value, "reflection", is_whole=True):
            about = "One line for each batch. An edit answers the held-out tickets with the seeds of the old guidance."
            tables.append(ShownTable(f"Decisions: {name}", about, _DECISIONS, list(map(_decision, lines))))
        guidance = read_guidance(path / GUIDANCE)[name]
        about = f"What the prompt holds after step {guidance.step}."
        entries = guidance.metadata.entries
        rows: list[list[Cell]] = [
            [f"[{key}]", text, entries[key].rationale or ""] for key, text in guidance.experiences.items()
        ]
        tables.append(ShownTable(f"Experiences: {name}", about, ("key", "text", "why"), rows))
    return tables


def _mission(name: str, stats: Value) -> list[Cell]:
    tickets, batches, reflections = stats["tickets"], stats["batches"], stats["reflections"]
    sides = [(stats["holdout"][side] or {}).get("majority") or {} for side in ("before", "after")]
    return [
        name,
        f"{batches['done']} of {batches['total']}",
        *(tickets[part] for part in ("training", "holdout", "excluded")),
        reflections["refine"],
        reflections["applied"],
        _percent(stats["recall"]["rate"]),
        _percent(stats["format"]["rate"]),
        *(_percent(side.get("balanced_accuracy")) for side in sides),
        *(_percent(side.get("false_pass_rate")) for side in sides),
    ]


def _decision(line: Value) -> list[Cell]:
    figures, proposal = line["figures"] or {}, line["proposal"] or {}
    uplift = figures.get("uplift")
    edits = (f"{one['op']} {one['key'] or 'a new one'}: {one['text'] or ''}" for one in proposal.get("operations", ()))
    return [
        line["step"],
        "yes" if line["applied"] else "no",
        "; ".join(edits),
        f"{line['gate']}: {line['gate_reason']}" if line["gate_reason"] else line["gate"],
        None if uplift is None else round(100 * uplift, 1),
        figures.get("probability"),
        _percent(figures.get("false_pass_before")),
        _percent(figures.get("false_pass_after")),
        figures.get("tickets"),
    ]


def _percent(value: float | None) -> str | None:
    return None if value is None else format_percent(value)
