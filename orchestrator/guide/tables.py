"""What a guided run has found, as the tables of its page: missions, decisions of the gate, and the experiences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.guide.artifacts import STATS, ArtifactError, check_artifact
from orchestrator.guide.closing import NOT_NEW
from orchestrator.guide.guidance_file import GuidanceError, read_guidance
from orchestrator.guide.repository import GUIDANCE
from orchestrator.line_file import load_lines
from orchestrator.output import OutputError, read_json
from orchestrator.runs.kinds import Cell, ShownTable

_MISSIONS = (
    "mission", "batches", "training tickets", "held out", "excluded", "edits proposed", "applied", "recall",
    "three lines kept", "balanced accuracy, first", "last", "false passes, first", "last",
)  # fmt: skip
_DECISIONS = (
    "step", "applied", "proposed", "decision", "uplift, points", "probability", "false passes before", "after",
    "held-out tickets",
)  # fmt: skip


def guide_tables(folder: Path) -> Sequence[ShownTable]:
    """Of a run that has not begun, none.  Raises: OutputError for a file that cannot be used."""
    missions = {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{STATS}"))}
    if not missions:
        return ()
    all_stats = {name: _stats(path) for name, path in missions.items()}
    about = "Accuracies are of held-out tickets, by the majority of the candidates, without labels"
    about += f"; {NOT_NEW}." if any(stats["gate"] == "preview" for stats in all_stats.values()) else "."
    tables = [ShownTable("Missions", about, _MISSIONS, [_mission(name, stats) for name, stats in all_stats.items()])]
    for name, path in missions.items():
        tables += _mission_tables(name, path)
    return tables


def _stats(mission: Path) -> Mapping[str, Any]:
    path = mission / STATS
    stats = read_json(path, dict[str, Any])
    try:
        check_artifact("stats", stats)
    except ArtifactError as error:
        raise OutputError(f"{path} cannot be read: {error}") from None
    return stats


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
    lines = load_lines(mission / "reflection.jsonl", dict[str, Any], "reflection", is_whole=True)
    try:
        for line in lines:
            check_artifact("reflection", line)
        guidance = read_guidance(mission / GUIDANCE)[name].guidance
    except (ArtifactError, GuidanceError, KeyError) as error:
        raise OutputError(f"{mission} cannot be read: {error}") from None
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
    return None if value is None else f"{value:.1%}"
