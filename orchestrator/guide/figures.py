"""What a mission counts while it runs, and its figures in `stats.json`.

Every accuracy is of the label-free selection; a ticket without a valid candidate is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.guide.ingest import MissionTickets
from orchestrator.guide.rollouts import Purpose, RolledOut
from orchestrator.guide.settings import GuideSettings
from tasks.guide.experiences import Guidance, guidance_hash
from tasks.guide.gate import Judged, accuracy, balanced_accuracy, false_pass_rate, share, unpaired_rates
from tasks.guide.ticket import Ticket

RECALL_EPOCHS = 2
"""A wrong ticket has surfaced when a proposal names it in the epoch in which it first was wrong, or in the next."""
TOKENS = ("rollout", "preview", "paired", "final", "critic", "reflection")
_TOKENS_OF: Mapping[Purpose, str] = {
    "learning": "rollout", "paired": "paired", "before": "preview", "after": "preview", "final": "final"
}  # fmt: skip
APPLIED = ("applied", "no_holdout", "rapid")
"""The outcomes of the gate with which an edit is applied."""
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
    eligible: int = 0
    refine: int = 0
    critiques: int = 0
    critiques_rejected: int = 0
    valid: int = 0
    candidates: int = 0
    tokens: Counter[str] = field(default_factory=Counter)
    cost_usd: float = 0.0
    critic_by: set[str] = field(default_factory=set)
    reflection_by: set[str] = field(default_factory=set)
    before: Value | None = None  # the held-out tickets under the first guidance, and under the last
    after: Value | None = None
    final: Value | None = None
    _counted: set[str] = field(default_factory=set)  # keys of jobs
    _first_wrong: dict[str, int] = field(default_factory=dict)  # epoch, by group id
    _surfaced: set[str] = field(default_factory=set)

    def add_rollout(self, rolled: RolledOut) -> None:
        """Tokens count once for each job: what was answered before is not asked again."""
        purpose = rolled.rollout.purpose
        new = rolled.tokens.keys() - self._counted
        self.tokens[_TOKENS_OF[purpose]] += sum(rolled.tokens[key] for key in new)
        self._counted |= new
        if purpose == "learning":
            candidates = [candidate for found in rolled.tickets for candidate in found.candidates]
            self.candidates += len(candidates)
            self.valid += sum(candidate.format_ok for candidate in candidates)

    def add_judged(self, rolled: RolledOut, judged: Sequence[Judged]) -> None:
        """The verdicts on a batch."""
        rollout = rolled.rollout
        place = {"epoch": rollout.epoch, "step": rollout.step, "guidance_step": rollout.guidance.step}
        self.learning.append({**place, "judged": judged_value(judged)})
        for found, (label, verdict) in zip(rolled.tickets, judged, strict=True):
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
        self.tokens["critic"] += reply["tokens"]
        self.cost_usd += reply["usage"]["cost_usd"]
        self.critic_by.add(reply["by"])
        self.critiques += 1
        self.critiques_rejected += is_rejected

    def add_proposal(self, reply: Mapping[str, Any], *, is_refine: bool) -> None:
        self.tokens["reflection"] += reply["tokens"]
        self.cost_usd += reply["usage"]["cost_usd"]
        self.reflection_by.add(reply["by"])
        self.refine += is_refine

    def stats(self, guidance: Guidance, *, is_finished: bool) -> Value:
        """The content of `stats.json`, without its time."""
        settings, is_applied = self.settings, [gate in APPLIED for gate in self.gates]
        unpaired = unpaired_rates([line["judged"]["accuracy"] for line in self.learning], is_applied)
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
            "gate": gate_kind(settings),
            "reflections": {
                "batches": len(self.gates),
                "eligible": self.eligible,
                "refine": self.refine,
                "applied": sum(is_applied),
                "by_gate": dict(sorted(Counter(self.gates).items())),
                "acceptance": _rate(sum(is_applied), self.refine),
            },
            "critiques": {"asked": self.critiques, "rejected": self.critiques_rejected},
            "precision": {"paired": _improved(self.paired), "unpaired": _improved(unpaired)},
            "recall": _rate(len(self._surfaced), len(self._first_wrong)),
            "format": _rate(self.valid, self.candidates),
            "tokens": {name: self.tokens[name] for name in TOKENS},
            "cost_usd": self.cost_usd if self.is_priced else None,
            "learning": list(self.learning),
            "holdout": {"before": self.before, "after": self.after},
            "final": self.final,
        }


def gate_kind(settings: GuideSettings) -> str:
    """How edits are decided on: by a preview, or not at all."""
    return "preview" if settings.is_gated else "rapid" if settings.reflection.rapid_mode else "no_holdout"


def judged_value(judged: Sequence[Judged]) -> Value:
    """The figures of some judged tickets."""
    return {
        "tickets": len(judged),
        "right": sum(label == verdict for label, verdict in judged),
        "accuracy": accuracy(judged),
        "balanced_accuracy": balanced_accuracy(judged),
        "false_pass_rate": false_pass_rate(judged),
    }


def _rate(count: int, of: int) -> Value:
    return {"count": count, "of": of, "rate": share(count, of)}


def _improved(rates: Sequence[tuple[float, float]]) -> Value:
    return _rate(sum(after > before for before, after in rates), len(rates))
