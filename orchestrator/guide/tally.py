"""What a mission counts while it runs: for `stats.json`, for its figures in `status`, and for the report.

Every accuracy is of the label-free selection; a ticket without a valid candidate is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import FiniteFloat
from typing_extensions import TypedDict

from orchestrator.guide.ingest import MissionTickets, ticket_counts
from orchestrator.guide.rollouts import Purpose, RolledOut
from orchestrator.guide.settings import GuideSettings
from orchestrator.runs.folder import read_state
from orchestrator.runs.kinds import RunProgress
from tasks.guide.experiences import Guidance, guidance_hash
from tasks.guide.gate import (
    Judged,
    accuracy,
    balanced_accuracy,
    false_pass_rate,
    share,
    unpaired_rates,
)
from tasks.guide.ticket import Ticket

RECALL_EPOCHS = 2
"""A wrong ticket has surfaced when a proposal names it in the epoch in which it first was wrong, or in the next."""
TOKENS = ("rollout", "preview", "paired", "final", "critic", "reflection")
_TOKENS_OF: Mapping[Purpose, str] = {
    "learning": "rollout", "paired": "paired", "before": "preview", "after": "preview", "final": "final"
}  # fmt: skip
PROGRESS_FILE, UNIT = "progress.json", "batches"
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
    gates: list[str] = field(default_factory=list)  # of each batch
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
    _rates: list[float] = field(default_factory=list)  # of right verdicts, of each batch
    _first_wrong: dict[str, int] = field(default_factory=dict)  # epoch, by group id
    _surfaced: set[str] = field(default_factory=set)

    @property
    def per_epoch(self) -> int:
        return len(self.tickets.training) // self.settings.sampler.group_batch_size

    @property
    def done(self) -> int:
        """Batches that are complete."""
        return len(self.gates)

    @property
    def applied(self) -> int:
        """Proposals that were applied."""
        return sum(gate in APPLIED for gate in self.gates)

    @property
    def total(self) -> int:
        return self.per_epoch * self.settings.runner.epochs

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

    def add_judged(
        self, epoch: int, step: int, guidance_step: int, group_ids: Sequence[str], judged: Judgements
    ) -> None:
        """The verdicts on a batch, in the order of its group ids."""
        place = {"epoch": epoch, "step": step, "guidance_step": guidance_step}
        self.learning.append({**place, "judged": judged_value(judged)})
        self._rates.append(match_rate(judged))
        for group_id, (label, verdict) in zip(group_ids, judged, strict=True):
            if label != verdict:
                self._first_wrong.setdefault(group_id, epoch)

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

    def rates(self) -> dict[str, Value]:
        """The figures that are rates, each as its count, of what, and their ratio."""
        unpaired = unpaired_rates(self._rates, [gate in APPLIED for gate in self.gates])
        return {
            "acceptance_rate": rate_value(self.applied, self.refine),
            "precision_paired": rate_value(_improved(self.paired), len(self.paired)),
            "precision_unpaired": rate_value(_improved(unpaired), len(unpaired)),
            "recall": rate_value(len(self._surfaced), len(self._first_wrong)),
            "format_validity": rate_value(self.valid, self.candidates),
        }

    def stats(self, guidance: Guidance, *, is_finished: bool) -> Value:
        """The content of `stats.json`, without its time."""
        settings, rates = self.settings, self.rates()
        return {
            "mission": self.tickets.mission,
            "run": settings.output.run_id,
            "is_finished": is_finished,
            "tickets": ticket_counts(self.tickets),
            "batches": {
                "size": settings.sampler.group_batch_size,
                "per_epoch": self.per_epoch,
                "done": self.done,
                "total": self.total,
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
                "batches": self.done,
                "eligible": self.eligible,
                "refine": self.refine,
                "applied": self.applied,
                "by_gate": dict(sorted(Counter(self.gates).items())),
                "acceptance": rates["acceptance_rate"],
            },
            "critiques": {"asked": self.critiques, "rejected": self.critiques_rejected},
            "precision": {"paired": rates["precision_paired"], "unpaired": rates["precision_unpaired"]},
            "recall": rates["recall"],
            "format": rates["format_validity"],
            "tokens": {name: self.tokens[name] for name in TOKENS},
            "cost_usd": self.cost_usd if self.is_priced else None,
            "learning": list(self.learning),
            "holdout": {"before": self.before, "after": self.after},
            "final": self.final,
        }


Judgements = Sequence[Judged]


def gate_kind(settings: GuideSettings) -> str:
    """How edits are decided on: by a preview, or not at all."""
    return "preview" if settings.is_gated else "rapid" if settings.reflection.rapid_mode else "no_holdout"


def match_rate(judged: Judgements) -> float:
    """The share of right verdicts of a batch."""
    return accuracy(judged) or 0.0


def judged_value(judged: Judgements) -> Value:
    """The figures of some judged tickets."""
    return {
        "tickets": len(judged),
        "right": sum(label == verdict for label, verdict in judged),
        "accuracy": accuracy(judged),
        "balanced_accuracy": balanced_accuracy(judged),
        "false_pass_rate": false_pass_rate(judged),
    }


def rate_value(count: int, of: int) -> Value:
    return {"count": count, "of": of, "rate": share(count, of)}


def _improved(rates: Sequence[tuple[float, float]]) -> int:
    return sum(after > before for before, after in rates)


class GuideProgress(TypedDict):
    """progress.json: batches of all missions that are complete, of how many, and the run's figures."""

    done: int
    total: int
    is_finished: bool
    figures: dict[str, FiniteFloat | None]


def progress_of(tallies: Iterable[Tally], *, is_finished: bool) -> GuideProgress:
    """The progress of a run, from the counts of its missions."""
    all_tallies = list(tallies)
    counted, of = Counter[str](), Counter[str]()
    for tally in all_tallies:
        for name, rate in tally.rates().items():
            counted[name] += rate["count"]
            of[name] += rate["of"]
    figures: dict[str, FiniteFloat | None] = {
        "proposals": float(of["acceptance_rate"]),
        "applied": float(counted["acceptance_rate"]),
        "wrong": float(of["recall"]),
        **{name: share(counted[name], of[name]) for name in of},
    }
    done, total = (sum(getattr(tally, name) for tally in all_tallies) for name in ("done", "total"))
    return GuideProgress(done=done, total=total, is_finished=is_finished, figures=figures)


def read_progress(folder: Path) -> RunProgress:
    try:
        found = read_state(folder / PROGRESS_FILE, GuideProgress, "the next start writes it anew: remove it")
    except FileNotFoundError:
        return RunProgress(UNIT, 0, None, is_finished=False)
    return RunProgress(UNIT, found["done"], found["total"], found["is_finished"], found["figures"])
