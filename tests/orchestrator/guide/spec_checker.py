"""Checks the artifacts of one mission against the specification: whatever follows from the tickets, the settings and
the raw answers is recomputed (spec_rules.py) and compared.  Nothing here is the project's code.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from spec_lines import LineChecker, Unreadable, lines_of
from spec_rules import Read, Sides, Value, edited, gate, hash_of, in_order, screened

NO_BATCH = "no reflection follows"


class SpecChecker(LineChecker):
    """The checks of one mission's folder: what becomes of its guidance, step by step."""

    def check(self) -> list[str]:
        """All that differs, one line each; no more after a file of another structure."""
        try:
            self._check()
        except Unreadable:
            assert self.faults
        return self.faults

    def _check(self) -> None:
        start = json.loads((self.folder / "guidance_start.json").read_text())[self.mission]
        self.step, self.experiences, self.highest = start["step"], start["experiences"], start["metadata"]["highest"]
        self.history = [(line["step"], line["hash"], line["reflection_id"]) for line in start["metadata"]["history"]]
        self.entries = {key: _entry(entry) for key, entry in start["metadata"]["entries"].items()}
        self.previous: tuple[int, Value] | None = None
        self.reviewed: list[Value] = []
        reflections = iter(lines_of(self.folder / "reflection.jsonl"))
        chosen = iter(lines_of(self.folder / "selections.jsonl"))
        number, size = 0, self.settings["sampler"]["group_batch_size"]
        for epoch in range(1, self.settings["runner"]["epochs"] + 1):
            order = self._shuffled(epoch, number)
            cap_left = self.settings["reflection"]["change_cap_per_epoch"]
            for at in range(0, len(order) - size + 1, size):
                number += 1
                line = next(reflections, {})
                self.require(f"step {number}: a reflection", bool(line), True)
                cap_left -= self._batch(epoch, number, order[at : at + size], cap_left, line, chosen)
        self.same("reflection.jsonl", [*reflections], [])
        self.same("selections.jsonl", [*chosen], [])
        self._final()
        self._guidance()
        flagged = [line for line in lines_of(self.folder / "review.jsonl") if line["step"]]
        self.same("review.jsonl", _without(flagged, "created_at"), self.reviewed)

    # -- the parts of a run --------------------------------------------------------------------------------------

    def _shuffled(self, epoch: int, batches: int) -> list[str]:
        """R3: the order of an epoch, and what its file says."""
        training = sorted(self.by_id.keys() - self.held_out)
        random.Random(self.settings["runner"]["shuffle_seed"] + epoch).shuffle(training)
        size = self.settings["sampler"]["group_batch_size"]
        whole = len(training) - len(training) % size
        wanted = [
            {**self.by_id[name], "epoch": epoch, "batch": batches + 1 + at // size if at < whole else None}
            for at, name in enumerate(training)
        ]
        self.same(f"epoch_{epoch}", lines_of(self.folder / f"epoch_{epoch}" / "shuffled_data.jsonl"), wanted)
        return training

    def _batch(
        self, epoch: int, number: int, order: Sequence[str], cap_left: int, line: Value, chosen: Iterator[Value]
    ) -> int:
        """One batch; returns how many operations were applied."""
        place = {"mission": self.mission, "epoch": epoch, "step": number}
        where = f"step_{number}"
        groups = self.rollout(f"{where}/rollout.jsonl", place, order, "learning", self.step, self.experiences)
        if self.previous:
            self.rollout(f"{where}/paired.jsonl", place, order, "paired", *self.previous, seeds_of=where)
        bundle, review, has_met = screened(groups, self.settings)
        outcome, applied = self._reflection(where, place, line, bundle, review, has_met, cap_left)
        change = line["reflection_id"] if applied else None
        self.trajectories(where, place, groups)
        for name in order:
            by_hand = "all wrong, for manual review" if name in review else "not by the eligibility policy"
            why = {} if name in bundle else {"ineligible_reason": by_hand}
            more = {"holdout": False, "reflection_change": change, "eligible": name in bundle, **why}
            wanted = self.selection(place, name, groups, self._guided()) | more
            self.same(f"{where}: selection of {name}", next(chosen, None), wanted)
            if reasons := _review_reasons(groups[name], name in review):
                label = self.by_id[name]["label"]
                made = {"group_id": name, **place, "label": label, "reasons": reasons, **self._guided()}
                self.reviewed.append({**made, "reflection_id": line["reflection_id"]})
        self.same(f"{where}: guidance before", _guided_by(line, "before"), self._guided())
        self.previous = None
        if applied:
            self.previous = (self.step, self.experiences)
            self.step, self.experiences, self.highest = self.step + 1, applied.experiences, applied.highest
            self.history.append((self.step, hash_of(self.experiences), line["reflection_id"]))
            self._enter(applied.accepted, line["reflection_id"])
        self.same(f"{where}: guidance after", _guided_by(line, "after"), self._guided())
        self.same(f"{where}: applied", line["applied"], outcome in ("applied", "rapid", "no_holdout"))
        return len(applied.accepted) if applied else 0

    def _reflection(
        self, where: str, place: Value, line: Value, bundle: list[str], review: list[str], has_met: bool, cap_left: int
    ) -> Any:
        """The outcome of a proposal, and the edit where it is applied."""
        settings, proposal = self.settings["reflection"], line["proposal"]
        shown = bundle[: settings["batch_size"]]
        made: Any = None
        figures = None
        if not bundle:
            outcome = "ineligible"
            self.same(f"{where}: R7", (proposal or {}).get("action"), "noop")
        elif cap_left < 1:
            outcome = "budget"
        elif proposal is None:
            outcome = "rejected"
        elif proposal["action"] == "noop":
            outcome = "noop"
        else:
            texts = [text for ticket in self.tickets for text in ticket["per_image"].values()]
            most = min(settings["max_operations"], cap_left)
            made = edited(self.experiences, self.highest, proposal, most, bundle, [*self.by_id], texts)
            if not made.accepted:
                outcome = "invalid"
            elif (proposal["uncertainty_note"] or "").strip() and not settings["allow_uncertain"]:
                outcome = "uncertain"
            elif line["gate"] == "too_long":  # the lengths of prompts are in no artifact
                outcome = "too_long"
            elif settings["rapid_mode"] or not self.held_out:
                outcome = "rapid" if settings["rapid_mode"] else "no_holdout"
            else:
                outcome, figures = gate(self._previewed(where, place, made.experiences), self.settings)
        why = (
            "every ticket that meets the eligibility policy is for manual review"
            if has_met
            else ("no ticket meets the eligibility policy")
        )
        wanted = {
            **place,
            "backend": settings["backend"],
            "eligible": bool(bundle),
            **({} if bundle else {"ineligible_reason": why}),
            "gate": outcome,
            "figures": figures,
            "bundle": bundle,
            "shown": shown,
            "manual_review": review,
            "warnings": [],
            "accepted_operations": made.accepted if made else [],
            "experiences_proposed": made.experiences if made and made.accepted else None,
        }
        for name, value in wanted.items():
            self.same(f"{where}: {name}", line.get(name), value)
        rejected = [operation["index"] for operation in line["rejected_operations"]]
        self.same(f"{where}: rejected_operations", rejected, made.rejected if made else [])
        if proposal is None and outcome != "rejected":
            self.same(f"{where}: by", line["by"], None)
        return outcome, made if outcome in ("applied", "rapid", "no_holdout") else None

    def _previewed(self, where: str, place: Value, after: Value) -> Sides:
        """R4: the held-out tickets, and no others, under both guidances, with equal seeds."""
        nowhere = {"mission": self.mission, "epoch": None, "step": None}
        name, held_out = f"{where}/preview.jsonl", sorted(self.held_out)
        old = self.rollout(name, nowhere, held_out, "before", self.step, self.experiences)
        new = self.rollout(name, nowhere, held_out, "after", self.step + 1, after)
        seeds = [
            [line["decode"]["seed"] for line in lines_of(self.folder / name) if line["purpose"] == purpose]
            for purpose in ("before", "after")
        ]
        self.same(f"{name}: seeds", seeds[0], seeds[1])
        return [
            (self.by_id[one]["label"], [c.verdict for c in old[one][1]], [c.verdict for c in new[one][1]])
            for one in held_out
        ]

    def _final(self) -> None:
        """R3: a pass over all tickets with the last guidance."""
        place = {"mission": self.mission, "epoch": None, "step": None}
        order = sorted(self.by_id)
        groups = self.rollout("final/rollout.jsonl", place, order, "final", self.step, self.experiences)
        self.trajectories("final", place, groups)
        found = lines_of(self.folder / "final" / "selections.jsonl")
        more = {"reflection_change": None, "eligible": False, "ineligible_reason": NO_BATCH}
        self.require("final/selections.jsonl", len(found), len(order))
        for name, line in zip(order, found, strict=True):
            wanted = self.selection(place, name, groups, self._guided()) | {"holdout": name in self.held_out, **more}
            self.same(f"final: selection of {name}", line, wanted)

    def _guidance(self) -> None:
        """The guidance of every step: the file, its history, and the snapshots that are kept."""
        kept = self.settings["guidance"]["retention"]
        files = sorted((self.folder / "snapshots").iterdir())
        self.same("snapshots", len(files), min(kept, len(self.history)))
        steps = self.history[-kept:]
        for path, line in [*zip(files, steps, strict=False), (self.folder / "guidance.json", self.history[-1])]:
            entry = json.loads(path.read_text())[self.mission]
            self.same(f"{path.name}: step", (entry["step"], hash_of(entry["experiences"])), line[:2])
            made = [(one["step"], one["hash"], one["reflection_id"]) for one in entry["metadata"]["history"]]
            self.same(f"{path.name}: history", made, self.history[: self.history.index(line) + 1])
            self.same(f"{path.name}: order", list(entry["experiences"]), list(in_order(entry["experiences"])))
        self.same("guidance.json: experiences", entry["experiences"], self.experiences)
        self.same("guidance.json: highest", entry["metadata"]["highest"], self.highest)
        entries = {key: _entry(one) for key, one in entry["metadata"]["entries"].items()}
        self.same("guidance.json: entries", entries, self.entries)

    def _enter(self, accepted: Sequence[Value], reflection_id: str) -> None:
        """R9: where each entry comes from; removed ones stay."""
        for one in accepted:
            made = {"reflection_id": reflection_id, "evidence": one["evidence"], "rationale": one["rationale"]}
            for key in [one["key"]] if one["op"] == "remove" else one["merged_from"]:
                self.entries[key] = {**made, "removed": True, "text": self.entries[key]["text"]}
            if one["op"] != "remove":
                self.entries[one["key"]] = {**made, "removed": False, "text": one["text"]}

    def _guided(self) -> Value:
        return {"guidance_step": self.step, "guidance_hash": hash_of(self.experiences)}


def _entry(record: Value) -> Value:
    return _without([record], "updated_at")[0]


def _review_reasons(group: tuple[str, list[Read]], by_hand: bool) -> list[str]:
    label, candidates = group
    verdicts = {one.verdict for one in candidates} - {None}
    reasons = ["no_valid_candidate"] if not verdicts else [] if label in verdicts else ["all_wrong"]
    return [*reasons, "manual_review"] if by_hand else reasons


def _guided_by(line: Value, side: str) -> Value:
    return {"guidance_step": line[f"guidance_step_{side}"], "guidance_hash": line[f"guidance_hash_{side}"]}


def _without(lines: Sequence[Value], name: str) -> list[Value]:
    return [{key: value for key, value in line.items() if key != name} for line in lines]
