"""What a mission counts while it runs: the figures of `stats.json`.

Every accuracy is of the label-free selection; a ticket without a valid candidate is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tasks.guide.choose import judged_figures, share
from tasks.guide.experiences import Guidance, guidance_hash, resolve_evidence

if TYPE_CHECKING:
    from orchestrator.guide.inputs import MissionTickets
    from orchestrator.guide.reflecting import Criticism, Decision
    from orchestrator.guide.rollouts import RolledOut
    from orchestrator.guide.settings import GuideSettings

RECALL_EPOCHS = 2
"""A wrong ticket has surfaced when a proposal names it in the epoch in which it first was wrong, or in the next."""
TOKENS = ("rollout", "preview", "paired", "final", "critic", "reflection")
_TOKENS_OF = {"learning": "rollout", "before": "preview", "after": "preview"}
APPLIED = ("applied", "no_holdout", "rapid")
"""The outcomes of the gate with which an edit is applied."""
Value = dict[str, Any]


@dataclass
class Tally:
    """The counts of one mission.  `is_priced`: whether the endpoint's prices are known."""

    settings: GuideSettings
    tickets: MissionTickets
    is_priced: bool = True
    dropped: list[Value] = field(default_factory=list)  # the tickets that an epoch leaves out
    learning: list[Value] = field(default_factory=list)  # one for each batch
    gates: list[str] = field(default_factory=list)  # of each batch
    paired: list[tuple[float, float]] = field(default_factory=list)  # the next batch under old and new guidance
    number: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    cost_usd: float = 0.0
    by: dict[str, set[str]] = field(default_factory=lambda: {"critic": set(), "reflection": set()})
    at_end: Value | None = None
    _counted: set[str] = field(default_factory=set)  # keys of jobs
    _first_wrong: dict[str, int] = field(default_factory=dict)  # epoch, by group id
    _surfaced: set[str] = field(default_factory=set)

    def add_batch(self, rolled: RolledOut, old: RolledOut | None, critic: Criticism, decision: Decision) -> None:
        """A complete batch; `old` is the same one under the guidance before the last edit."""
        rollout, epoch, figures = rolled.rollout, rolled.rollout.epoch or 0, judged_figures(rolled.judged)
        self._add_tokens(rolled, *([old] if old else []), *decision.preview)
        place = {"epoch": epoch, "step": rollout.step, "guidance_step": rollout.guidance.step}
        self.learning.append({**place, "judged": figures})
        self.gates.append(decision.gate)
        if old:
            self.paired.append((judged_figures(old.judged)["accuracy"], figures["accuracy"]))
        candidates = [candidate for found in rolled.tickets for candidate in found.candidates]
        self.number["candidates"] += len(candidates)
        self.number["valid"] += sum(candidate.format_ok for candidate in candidates)
        self.number["eligible"] += bool(rolled.screening.bundle)
        for reply in critic.replies:
            self._add_reply("critic", reply)
        self.number["critiques"] += len(critic.replies)
        self.number["critiques_rejected"] += critic.rejected
        if decision.reply:
            self._add_reply("reflection", decision.reply)
        for found, (label, verdict) in zip(rolled.tickets, rolled.judged, strict=True):
            if label != verdict:
                self._first_wrong.setdefault(found.ticket.group_id, epoch)
        if (proposal := decision.proposal) and proposal.action == "refine":
            self.number["refine"] += 1
            operations = [name for operation in proposal.operations for name in operation.evidence]
            named = resolve_evidence([*proposal.evidence_group_ids, *operations], rolled.screening.bundle)
            wrong = self._first_wrong
            self._surfaced |= {name for name in named if name in wrong and epoch < wrong[name] + RECALL_EPOCHS}

    def add_final(self, rolled: RolledOut, first: RolledOut) -> None:
        """The last pass: all tickets under the last guidance, and the held-out ones under the first."""
        self._add_tokens(rolled, first)
        held_out = rolled.of({found.ticket.group_id for found in first.tickets})
        self.at_end = {
            "holdout": {"before": _held_out(first), "after": _held_out(held_out)},
            "final": judged_figures(rolled.judged),
            "against_greedy": {
                "all_tickets": _selection_diff(rolled, rolled),
                "held_out_first_guidance": _selection_diff(first, held_out),
            },
        }

    def _add_tokens(self, *rollouts: RolledOut) -> None:
        """They count once for each job: what was answered before is not asked again."""
        for rolled in rollouts:
            purpose, new = rolled.rollout.purpose, rolled.tokens.keys() - self._counted
            self.tokens[_TOKENS_OF.get(purpose, purpose)] += sum(rolled.tokens[key] for key in new)
            self._counted |= new

    def _add_reply(self, who: str, reply: Mapping[str, Any]) -> None:
        self.tokens[who] += reply["tokens"]
        self.cost_usd += reply["usage"]["cost_usd"]
        self.by[who].add(reply["by"])

    def stats(self, guidance: Guidance) -> Value:
        """The content of `stats.json`, without its time."""
        settings, number, is_applied = self.settings, self.number, [gate in APPLIED for gate in self.gates]
        rates = pairwise(line["judged"]["accuracy"] for line in self.learning)
        unpaired = [pair for pair, was_applied in zip(rates, is_applied, strict=False) if was_applied]
        size, done = settings.sampler.group_batch_size, len(self.gates)
        per_epoch = len(self.tickets.training) // size
        total = per_epoch * settings.runner.epochs
        at_end = self.at_end or {"holdout": {"before": None, "after": None}, "final": None, "against_greedy": None}
        return {
            "mission": self.tickets.mission,
            "run": settings.output.run_id,
            "is_finished": self.at_end is not None,
            "tickets": self.tickets.counts(),
            "batches": {"size": size, "per_epoch": per_epoch, "done": done, "total": total},
            "dropped": self.dropped,
            "guidance": {
                "step": guidance.step,
                "hash": guidance_hash(guidance.experiences),
                "experiences": len(guidance.experiences),
            },
            "who": {
                "critic_backend": settings.critic.backend if settings.critic.enabled else "none",
                "critic_by": sorted(self.by["critic"]),
                "reflection_backend": settings.reflection.backend,
                "reflection_by": sorted(self.by["reflection"]),
                "constrained": settings.sampler.constrain != "none",
            },
            "gate": settings.gate,
            "reflections": {
                "batches": done,
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
            **at_end,
        }


def _held_out(rolled: RolledOut) -> Value | None:
    """By majority and, where a cell is greedy, by the first such candidate."""
    if not rolled.tickets:
        return None
    greedy = judged_figures(rolled.greedy) if rolled.greedy else None
    return {**rolled.rollout.guided_by, "majority": judged_figures(rolled.judged), "greedy": greedy}


def _selection_diff(greedy: RolledOut, selected: RolledOut) -> Value | None:
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
