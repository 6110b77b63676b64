"""What a mission counts while it runs, and what a guided run says of itself: in `stats.json`, `status`, at its end, and
in the tables of its page.

Every accuracy is of the label-free selection; a ticket without a valid candidate is wrong.  The held-out tickets have
decided which edits were applied, so their figures after the run are not those of new tickets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.console import format_count
from orchestrator.guide.guidance import GUIDANCE, read_guidance
from orchestrator.report.format import format_percent
from orchestrator.runs.folder import load_lines, read_json
from orchestrator.runs.kinds import Cell, Figures, ProgressFile, ShownTable
from tasks.guide.choose import Judged, accuracy, balanced_accuracy, false_pass_rate, share
from tasks.guide.experiences import Guidance, guidance_hash
from tasks.openai.endpoint import join_providers

if TYPE_CHECKING:
    from orchestrator.guide.inputs import MissionTickets
    from orchestrator.guide.rollouts import RolledOut
    from orchestrator.guide.settings import GuideSettings
    from tasks.guide.ticket import Ticket

STATS, REFLECTIONS, UNIT = "stats.json", "reflection.jsonl", "batches"
RECALL_EPOCHS = 2
"""A wrong ticket has surfaced when a proposal names it in the epoch in which it first was wrong, or in the next."""
TOKENS = ("rollout", "preview", "paired", "final", "critic", "reflection")
_TOKENS_OF = {"learning": "rollout", "before": "preview", "after": "preview"}
APPLIED = ("applied", "no_holdout", "rapid")
"""The outcomes of the gate with which an edit is applied."""
GATES = {
    "preview": "held-out tickets decide on each edit",
    "rapid": "none, because reflection.rapid_mode is true: edits are applied without a preview",
    "no_holdout": "none, because holdout.fraction is 0: edits are applied without a preview",
}
NOT_NEW = "the held-out tickets have decided which edits are applied: new tickets will show a smaller gain"
Value = dict[str, Any]


@dataclass
class Tally:
    """The counts of one mission.  `is_priced`: whether the endpoint's prices are known."""

    settings: GuideSettings
    tickets: MissionTickets
    is_priced: bool = True
    dropped: list[Value] = field(default_factory=list)
    learning: list[Value] = field(default_factory=list)  # one for each batch
    gates: list[str] = field(default_factory=list)  # of each batch that is complete
    paired: list[tuple[float, float]] = field(default_factory=list)  # the next batch under old and new guidance
    number: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    cost_usd: float = 0.0
    critic_by: set[str] = field(default_factory=set)
    reflection_by: set[str] = field(default_factory=set)
    before: Value | None = None  # the held-out tickets under the first guidance, and under the last
    after: Value | None = None
    final: Value | None = None
    against_greedy: Value | None = None  # what the selections change, at the end
    _counted: set[str] = field(default_factory=set)  # keys of jobs
    _first_wrong: dict[str, int] = field(default_factory=dict)  # epoch, by group id
    _surfaced: set[str] = field(default_factory=set)

    def add_rollout(self, rolled: RolledOut) -> None:
        """Tokens count once for each job: what was answered before is not asked again."""
        purpose, new = rolled.rollout.purpose, rolled.tokens.keys() - self._counted
        self.tokens[_TOKENS_OF.get(purpose, purpose)] += sum(rolled.tokens[key] for key in new)
        self._counted |= new
        if purpose == "learning":
            candidates = [candidate for found in rolled.tickets for candidate in found.candidates]
            self.number["candidates"] += len(candidates)
            self.number["valid"] += sum(candidate.format_ok for candidate in candidates)

    def add_judged(self, rolled: RolledOut) -> None:
        """The verdicts on a batch."""
        rollout = rolled.rollout
        place = {"epoch": rollout.epoch, "step": rollout.step, "guidance_step": rollout.guidance.step}
        self.learning.append({**place, "judged": judged_value(rolled.judged)})
        for found, (label, verdict) in zip(rolled.tickets, rolled.judged, strict=True):
            if label != verdict:
                self._first_wrong.setdefault(found.ticket.group_id, rollout.epoch or 0)

    def add_evidence(self, named: Sequence[str], epoch: int) -> None:
        """The tickets that a proposal of this epoch names; those that were right in every batch do not count."""
        self._surfaced |= {
            name for name in named if name in self._first_wrong and epoch < self._first_wrong[name] + RECALL_EPOCHS
        }

    def add_dropped(self, epoch: int, tickets: Sequence[Ticket]) -> None:
        if tickets:
            self.dropped.append({"epoch": epoch, "group_ids": sorted(ticket.group_id for ticket in tickets)})

    def add_critique(self, reply: Mapping[str, Any], *, is_rejected: bool) -> None:
        self._add_reply("critic", self.critic_by, reply)
        self.number["critiques"] += 1
        self.number["critiques_rejected"] += is_rejected

    def add_proposal(self, reply: Mapping[str, Any], *, is_refine: bool) -> None:
        self._add_reply("reflection", self.reflection_by, reply)
        self.number["refine"] += is_refine

    def _add_reply(self, who: str, by: set[str], reply: Mapping[str, Any]) -> None:
        self.tokens[who] += reply["tokens"]
        self.cost_usd += reply["usage"]["cost_usd"]
        by.add(reply["by"])

    def stats(self, guidance: Guidance, *, is_finished: bool) -> Value:
        """The content of `stats.json`, without its time."""
        settings, number, is_applied = self.settings, self.number, [gate in APPLIED for gate in self.gates]
        rates = pairwise(line["judged"]["accuracy"] for line in self.learning)
        unpaired = [pair for pair, was_applied in zip(rates, is_applied, strict=False) if was_applied]
        size = settings.sampler.group_batch_size
        per_epoch = len(self.tickets.training) // size
        return {
            "mission": self.tickets.mission,
            "run": settings.output.run_id,
            "is_finished": is_finished,
            "tickets": self.tickets.counts(),
            "batches": {
                "size": size,
                "per_epoch": per_epoch,
                "done": len(self.gates),
                "total": per_epoch * settings.runner.epochs,
            },
            "dropped": self.dropped,
            "guidance": {
                "step": guidance.step,
                "hash": guidance_hash(guidance.experiences),
                "experiences": len(guidance.experiences),
            },
            "who": {
                "critic_backend": settings.critic.backend if settings.critic.enabled else "none",
                "critic_by": sorted(self.critic_by),
                "reflection_backend": settings.reflection.backend,
                "reflection_by": sorted(self.reflection_by),
                "constrained": settings.sampler.constrain != "none",
            },
            "gate": settings.gate,
            "reflections": {
                "batches": len(self.gates),
                "eligible": number["eligible"],
                "refine": number["refine"],
                "applied": sum(is_applied),
                "by_gate": dict(sorted(Counter(self.gates).items())),
                "acceptance": _rate(sum(is_applied), number["refine"]),
            },
            "critiques": {"asked": number["critiques"], "rejected": number["critiques_rejected"]},
            "precision": {"paired": _improved(self.paired), "unpaired": _improved(unpaired)},
            "recall": _rate(len(self._surfaced), len(self._first_wrong)),
            "format": _rate(number["valid"], number["candidates"]),
            "tokens": {name: self.tokens[name] for name in TOKENS},
            "cost_usd": self.cost_usd if self.is_priced else None,
            "learning": list(self.learning),
            "holdout": {"before": self.before, "after": self.after},
            "final": self.final,
            "against_greedy": self.against_greedy,
        }


def judged_value(judged: Sequence[Judged]) -> Value:
    """The figures of some judged tickets."""
    return {
        "tickets": len(judged),
        "right": sum(label == verdict for label, verdict in judged),
        "accuracy": accuracy(judged),
        "balanced_accuracy": balanced_accuracy(judged),
        "false_pass_rate": false_pass_rate(judged),
    }


def selection_diff(greedy: RolledOut, selected: RolledOut) -> Value | None:
    """What the label-free selections change of greedy answers to the same tickets; None where no cell is greedy."""
    if not greedy.greedy:
        return None
    before, after = ([verdict for _, verdict in judged] for judged in (greedy.greedy, selected.judged))
    right = [sum(label == verdict for label, verdict in judged) for judged in (greedy.greedy, selected.judged)]
    ways = Counter(zip(before, after, strict=True))
    return {
        "tickets": len(before),
        **{f"{word}_delta": after.count(word) - before.count(word) for word in ("pass", "fail")},
        "right_delta": right[1] - right[0],
        "pass_to_fail": ways["pass", "fail"],
        "fail_to_pass": ways["fail", "pass"],
        "warnings": {
            "no_valid_candidate": after.count(None),
            "malformed_candidates": sum(not all(c.format_ok for c in t.candidates) for t in selected.tickets),
        },
    }


def _rate(count: int, of: int) -> Value:
    return {"count": count, "of": of, "rate": share(count, of)}


def _improved(rates: Sequence[tuple[float, float]]) -> Value:
    return _rate(sum(after > before for before, after in rates), len(rates))


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
