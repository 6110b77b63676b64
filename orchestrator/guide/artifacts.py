"""The files of one mission and their lines: each file appears whole, and is written anew by a run that is resumed.

Two equal runs differ in times only: `created_at`, `updated_at`, and the names of snapshots.
"""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from orchestrator.guide.guidance import utc_now
from orchestrator.guide.inputs import INCOMPLETE, MissionTickets
from orchestrator.guide.reflecting import REPLY_SHOWN, Decision, Extras
from orchestrator.guide.report import STATS
from orchestrator.guide.rollouts import RolledOut, Rollout
from orchestrator.guide.settings import settings_hash
from orchestrator.runs.folder import json_line, write_output
from tasks.guide.experiences import Guidance, guidance_hash
from tasks.guide.ticket import GuideCandidate, Ticket
from tasks.store.keys import content_hash

UNDATED = ("selections.jsonl", "shuffled_data.jsonl")
"""Their lines have no `created_at`."""
NO_VALID_CANDIDATE = "no_valid_candidate"  # a reason for review, and a warning
Line = dict[str, Any]


class MissionFolder:
    """The folder of one mission."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written: defaultdict[str, list[bytes]] = defaultdict(list)

    def write_lines(self, name: str, lines: Iterable[Line]) -> None:
        """Write a file whole, such as "final/selections.jsonl"."""
        write_output(self.path / name, b"".join(_dated(name, lines)))

    def extend(self, name: str, lines: Iterable[Line]) -> None:
        """Add the lines of one batch to a file that grows with each."""
        self._written[name] += _dated(name, lines)
        write_output(self.path / name, b"".join(self._written[name]))

    def write_stats(self, stats: Line) -> None:
        text = json.dumps({**stats, "updated_at": utc_now()}, indent=2, ensure_ascii=False, allow_nan=False)
        write_output(self.path / STATS, text + "\n")


def _dated(name: str, lines: Iterable[Line]) -> Iterator[bytes]:
    dated = {} if name.endswith(UNDATED) else {"created_at": utc_now()}
    return (json_line({**line, **dated}) for line in lines)


def rollout_lines(rolled: RolledOut) -> Iterator[Line]:
    """One for each candidate, as the model wrote it."""
    rollout = rolled.rollout
    for found, prompt_tokens in zip(rolled.tickets, rolled.prompt_tokens, strict=True):
        for candidate in found.candidates:
            yield {
                **_place(rollout, found.ticket),
                "purpose": rollout.purpose,
                **rollout.guided_by,
                "candidate_index": candidate.index,
                "decode": _decode(rollout, candidate),
                "response_text": candidate.text,
                "tokens": candidate.tokens,
                "prompt_tokens": prompt_tokens,
                "finish": candidate.finish,
                "format_ok": candidate.format_ok,
                "warnings": list(candidate.warnings),
            }


def trajectory_lines(rolled: RolledOut, extras: Sequence[Extras]) -> Iterator[Line]:
    """One for each candidate, with what was found of it."""
    rollout = rolled.rollout
    for found in rolled.tickets:
        for candidate, signals in zip(found.candidates, found.signals, strict=True):
            place = (found.ticket.group_id, candidate.index)
            more = {name: value for extra in extras for name, value in extra.get(place, {}).items()}
            yield {
                **_place(rollout, found.ticket),
                "candidate_index": candidate.index,
                "decode": _decode(rollout, candidate),
                "response_text": candidate.text,
                **rollout.guided_by,
                "format_ok": candidate.format_ok,
                "verdict": candidate.verdict,
                "reason": candidate.reason,
                "confidence": candidate.confidence,
                "signals": dataclasses.asdict(signals),
                "warnings": [*candidate.warnings, *more.pop("warnings", ())],
                **more,
            }


def selection_lines(rolled: RolledOut, reflection_change: str | None, held_out: Container[str] = ()) -> Iterator[Line]:
    """One for each ticket, with both selections.

    `reflection_change` is the reflection of the batch where it changed the guidance.  Outside of the epochs no ticket
    is eligible for a reflection.
    """
    rollout = rolled.rollout
    for found in rolled.tickets:
        ticket, first, free = found.ticket, found.label_first, found.label_free
        chosen = None if first.candidate is None else found.candidates[first.candidate]
        ineligible = rolled.screening.left_out.get(ticket.group_id)
        if rollout.epoch is None:
            ineligible = "no reflection follows"
        is_malformed = any(not candidate.format_ok for candidate in found.candidates)
        yield {
            **_place(rollout, ticket),
            "holdout": ticket.group_id in held_out,
            "label": ticket.label,
            "label_source": ticket.label_source,
            "label_timestamp": ticket.label_timestamp,
            "verdict": first.verdict,
            "reason": chosen.reason if chosen else None,
            "confidence": chosen.confidence if chosen else None,
            "label_match": first.label_match,
            "selected_candidate": first.candidate,
            "label_free": {
                "verdict": free.verdict,
                "selected_candidate": free.candidate,
                "label_match": free.label_match,
            },
            **rollout.guided_by,
            "reflection_change": reflection_change,
            "eligible": ineligible is None,
            **({"ineligible_reason": ineligible} if ineligible else {}),
            "warnings": [NO_VALID_CANDIDATE] if chosen is None else ["malformed_candidates"] if is_malformed else [],
        }


def review_lines(rolled: RolledOut, reflection_id: str) -> Iterator[Line]:
    """One for each ticket that a person may want to look at."""
    rollout = rolled.rollout
    for found in rolled.tickets:
        reasons = ["all_wrong"] if found.kind == "all_wrong" else []
        if found.label_first.candidate is None:
            reasons = [NO_VALID_CANDIDATE]
        if found.ticket.group_id in rolled.screening.manual_review:
            reasons.append("manual_review")
        if reasons:
            about = {"label": found.ticket.label, "reasons": reasons}
            yield {**_place(rollout, found.ticket), **about, **rollout.guided_by, "reflection_id": reflection_id}


def excluded_lines(tickets: MissionTickets) -> Iterator[Line]:
    """For review: the tickets that take part in nothing."""
    for group_id in tickets.excluded:
        nowhere = {"epoch": None, "step": None, "label": None, "reasons": [INCOMPLETE]}
        by_none = {"guidance_step": None, "guidance_hash": None, "reflection_id": None}
        yield {"group_id": group_id, "mission": tickets.mission, **nowhere, **by_none}


def reflection_id(rollout: Rollout) -> str:
    """Names the reflection after a batch: equal in runs of equal settings."""
    setup = rollout.setup
    return content_hash(settings_hash(setup.settings), setup.mission, rollout.epoch, rollout.step)[:16]


def reflection_line(rolled: RolledOut, decision: Decision, after: Guidance) -> Line:
    """What became of a batch; `after` is the guidance that holds from here on."""
    rollout, screening, setup = rolled.rollout, rolled.screening, rolled.rollout.setup
    before, applied, reply = rollout.guidance, decision.applied, decision.reply
    figures, rejected = None, {}
    if reply and not decision.proposal:
        rejected = {"rejected": {"reason": decision.reason, "reply": reply["text"][:REPLY_SHOWN]}}
    if decision.figures:
        figures = {**dataclasses.asdict(decision.figures), "tickets": len(setup.tickets.holdout)}
        del figures["reason"]
    return {
        "reflection_id": reflection_id(rollout),
        "mission": setup.mission,
        "epoch": rollout.epoch,
        "step": rollout.step,
        "backend": setup.settings.reflection.backend,
        "by": reply["by"] if reply else None,
        "proposal": dataclasses.asdict(decision.proposal) if decision.proposal else None,
        "eligible": bool(screening.bundle),
        **({"ineligible_reason": screening.ineligible_reason} if screening.ineligible_reason else {}),
        "applied": decision.edit is not None,
        "gate": decision.gate,
        "gate_reason": decision.reason,
        "figures": figures,
        "guidance_step_before": before.step,
        "guidance_step_after": after.step,
        "guidance_hash_before": guidance_hash(before.experiences),
        "guidance_hash_after": guidance_hash(after.experiences),
        "accepted_operations": [dataclasses.asdict(one) for one in applied.accepted] if applied else [],
        "rejected_operations": [{"index": i, "reason": why} for i, why in applied.rejected] if applied else [],
        "experiences_proposed": dict(applied.experiences) if applied and applied.accepted else None,
        "bundle": list(screening.bundle),
        "shown": list(rolled.shown),
        "manual_review": list(screening.manual_review),
        "warnings": [],
        **rejected,
    }


def _place(rollout: Rollout, ticket: Ticket) -> Line:
    return {"group_id": ticket.group_id, "mission": ticket.mission, "epoch": rollout.epoch, "step": rollout.step}


def _decode(rollout: Rollout, candidate: GuideCandidate) -> Line:
    cell = rollout.setup.settings.sampler.grid[candidate.cell]
    return {**dataclasses.asdict(cell), "seed": candidate.seed, "stop": list(cell.stop)}
