"""Checks the files of one mission against the specification: what follows from the tickets, the settings and the raw
answers is computed again and compared.  Nothing here is the project's code.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

Value = dict[str, Any]
WORDS = {"pass": "pass", "通过": "pass", "fail": "fail", "不通过": "fail", "未通过": "fail"}
ANSWER = re.compile(r"Verdict: (\w+)\nReason: .+\nConfidence: [0-9.]+")
APPLIED = ("applied", "rapid", "no_holdout")
Groups = dict[str, list[str | None]]
"""The verdicts of each ticket's candidates; None is malformed."""
Guided = tuple[int, Mapping[str, str]]
"""A step of the guidance, and its experiences."""


def lines_of(path: Path) -> list[Value]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def artifacts_of(run: Path) -> dict[str, str]:
    """Every file of each mission but the journal, in a form in which equal runs are equal.

    That is without times and the run's name; reflections are called by their places, snapshots by their order.
    """
    found: dict[str, str] = {}
    for mission in sorted(path.parent for path in run.glob("*/guidance.json")):
        places = {one["reflection_id"]: f"step {one['step']}" for one in lines_of(mission / "reflection.jsonl")}
        # A process that was killed as it wrote a file leaves its unfinished copy, which ends with `.part`.
        for number, path in enumerate(sorted({*mission.rglob("*.json"), *mission.rglob("*.jsonl")})):
            text = re.sub('"(created_at|updated_at|run)": "[^"]*"', "", path.read_text())
            for reflection, place in places.items():
                text = text.replace(reflection, place)
            name = f"snapshot {number}" if path.parent.name == "snapshots" else str(path.relative_to(mission))
            if name != "journal.jsonl":
                found[f"{mission.name}/{name}"] = text
    return found


class SpecChecker:
    """settings: as the YAML file has them, every key.  tickets: the lines of Stage-A of this mission, all complete."""

    def __init__(self, folder: Path, mission: str, settings: Value, tickets: Sequence[Value]) -> None:
        self.folder, self.mission, self.settings = folder, mission, settings
        self.labels = {ticket["group_id"]: ticket["label"] for ticket in tickets}
        # Which tickets the seed holds out is the project's; how many is the fraction's.
        self.held_out = sorted(self.labels.keys() - {one["group_id"] for one in self.lines("epoch_1/shuffled_data")})
        self.faults: list[str] = []

    def check(self) -> list[str]:
        """All that differs, one line each."""
        start = json.loads((self.folder / "guidance_start.json").read_text())[self.mission]
        self.now, self.highest = (start["step"], start["experiences"]), start["metadata"]["highest"]
        self.before: Guided | None = None
        history = [[line["step"], line["hash"]] for line in start["metadata"]["history"]]
        reflections, selections, number = self.lines("reflection"), self.lines("selections"), 0
        size = self.settings["sampler"]["group_batch_size"]
        for epoch in range(1, self.settings["runner"]["epochs"] + 1):
            order = sorted(self.labels.keys() - set(self.held_out))
            random.Random(self.settings["runner"]["shuffle_seed"] + epoch).shuffle(order)
            shuffled = [line["group_id"] for line in self.lines(f"epoch_{epoch}/shuffled_data")]
            self.same(f"the order of epoch {epoch}", shuffled, order)
            self.cap_left = self.settings["reflection"]["change_cap_per_epoch"]
            for at in range(0, len(order) - size + 1, size):
                batch, line = order[at : at + size], reflections[number]
                before, number = called(self.now), number + 1
                self.batch(epoch, number, batch, line, selections[(number - 1) * size : number * size])
                for side, wanted in (("before", before), ("after", called(self.now))):
                    found = [line[f"guidance_step_{side}"], line[f"guidance_hash_{side}"]]
                    self.same(f"step {number}: guidance {side}", found, wanted)
                if self.before:
                    history.append(called(self.now))
        self.same("reflections and selections", (len(reflections), len(selections)), (number, number * size))
        groups = self.rollout("final/rollout", "final", sorted(self.labels), self.now)
        self.selections("final", groups, self.lines("final/selections"))
        entry = json.loads((self.folder / "guidance.json").read_text())[self.mission]
        self.same("guidance.json", called((entry["step"], entry["experiences"])), called(self.now))
        self.same("history", [[one["step"], one["hash"]] for one in entry["metadata"]["history"]], history)
        held = {key: one["text"] for key, one in entry["metadata"]["entries"].items() if not one["removed"]}
        self.same("entries", held, self.now[1])
        return self.faults

    def batch(self, epoch: int, number: int, order: Sequence[str], line: Value, selections: Sequence[Value]) -> None:
        """One batch, and what becomes of the guidance after it."""
        where, settings = f"step_{number}", self.settings["reflection"]
        groups = self.rollout(f"{where}/rollout", "learning", order, self.now, epoch, number)
        if self.before:
            self.rollout(f"{where}/paired", "paired", order, self.before, epoch, number)
            old, new = ([one["decode"] for one in self.lines(f"{where}/{name}")] for name in ("paired", "rollout"))
            self.same(f"{where}: seeds of the pairs", old, new)
        self.selections(where, groups, selections)
        bundle, by_hand = self.bundle(groups)
        self.same(f"{where}: bundle", (line["bundle"], line["manual_review"]), (bundle, by_hand))
        self.same(f"{where}: shown", line["shown"], bundle[: settings["batch_size"]])
        outcome, figures, edited = self.outcome(where, line)
        self.same(f"{where}: gate", (line["gate"], line["figures"]), (outcome, figures))
        self.same(f"{where}: applied", line["applied"], outcome in APPLIED)
        self.before = None
        if edited and outcome in APPLIED:
            self.before, self.now = self.now, edited
            self.cap_left -= len(line["accepted_operations"])
            self.highest = max(self.highest, *(int(one["key"][1:]) for one in line["accepted_operations"]))

    def outcome(self, where: str, line: Value) -> tuple[str, Value | None, Guided | None]:
        """Of the gate, with its figures, and the guidance after the edit."""
        proposal, settings = line["proposal"], self.settings["reflection"]
        if not line["bundle"] or self.cap_left < 1:
            return "budget" if line["bundle"] else "ineligible", None, None
        if proposal is None or proposal["action"] == "noop":
            return "noop" if proposal else "rejected", None, None
        edited = self.edited(where, line, min(settings["max_operations"], self.cap_left))
        if edited is None:
            return "invalid", None, None
        if (proposal["uncertainty_note"] or "").strip() and not settings["allow_uncertain"]:
            return "uncertain", None, None
        if settings["rapid_mode"] or not self.held_out:
            return "rapid" if settings["rapid_mode"] else "no_holdout", None, edited
        # The held-out tickets, and no others, under both guidances, with equal seeds.
        name = f"{where}/preview"
        old = self.rollout(name, "before", self.held_out, self.now)
        new = self.rollout(name, "after", self.held_out, edited)
        seeds, half = [one["decode"] for one in self.lines(name)], len(self.lines(name)) // 2
        self.same(f"{name}: seeds", seeds[:half], seeds[half:])
        return *gate([(self.labels[one], old[one], new[one]) for one in self.held_out], self.settings), edited

    def edited(self, where: str, line: Value, most: int) -> Guided | None:
        """The guidance after the operations that were accepted, each of which does what was asked."""
        asked, accepted = line["proposal"]["operations"], line["accepted_operations"]
        rejected = [one["index"] for one in line["rejected_operations"]]
        wanted = [one for index, one in enumerate(asked) if index not in rejected]
        self.same(f"{where}: operations", [one["op"] for one in accepted], [one["op"] for one in wanted])
        self.same(f"{where}: over the budget", {*range(most, len(asked))} - {*rejected}, set())
        experiences, highest = dict(self.now[1]), self.highest
        for one, operation in zip(accepted, wanted, strict=False):
            self.same(f"{where}: evidence", set(one["evidence"]) - set(line["bundle"]), set())
            for key in [one["key"]] if one["op"] == "remove" else one["merged_from"]:
                del experiences[key]
            if one["op"] != "remove":
                highest += operation["key"] is None
                self.same(f"{where}: key", one["key"], operation["key"] or f"G{highest}")
                experiences[one["key"]] = operation["text"].strip()
        self.same(f"{where}: experiences", line["experiences_proposed"], experiences if accepted else None)
        return (self.now[0] + 1, experiences) if accepted else None

    def rollout(self, name: str, purpose: str, order: Sequence[str], by: Guided, *place: int) -> Groups:
        """The candidates of each ticket of a file, in the order of the grid: one of a greedy cell, else all samples."""
        found, sampler = [line for line in self.lines(name) if line["purpose"] == purpose], self.settings["sampler"]
        grid = [(cell, sampler["samples_per_decode"] if cell["temperature"] else 1) for cell in sampler["grid"]]
        samples = [(cell, sample) for cell, count in grid for sample in range(count)]
        wanted = [(one, index) for one in order for index in range(len(samples))]
        self.same(f"{name}: {purpose}", [(line["group_id"], line["candidate_index"]) for line in found], wanted)
        groups, first = {one: list[str | None]() for one in order}, 0
        for line in found:
            (cell, sample), decode = samples[line["candidate_index"]], line["decode"]
            first = decode["seed"] if sample == 0 else first
            seed = first if cell["seed"] is None or not place else cell["seed"]
            self.same(f"{name}: decode", decode, {**cell, "stop": list(cell["stop"]), "seed": seed + sample})
            about = [line[key] for key in ("epoch", "step", "guidance_step", "guidance_hash")]
            self.same(f"{name}: place and guidance", about, [*(place or (None, None)), *called(by)])
            read = ANSWER.fullmatch(line["response_text"])
            verdict = WORDS.get(read[1]) if read else None
            self.same(f"{name}: format_ok", line["format_ok"], verdict is not None)
            groups[line["group_id"]].append(verdict)
        return groups

    def selections(self, where: str, groups: Groups, lines: Sequence[Value]) -> None:
        """With the label's help a right candidate where there is one; without it one of the majority."""
        self.same(f"{where}: tickets", [line["group_id"] for line in lines], [*groups])
        for (name, verdicts), line in zip(groups.items(), lines, strict=False):
            label, voted = self.labels[name], majority(verdicts)
            for verdict, said in ((label if label in verdicts else voted, line), (voted, line["label_free"])):
                chosen = said["selected_candidate"]
                found = [said["verdict"], said["label_match"], None if chosen is None else verdicts[chosen]]
                self.same(f"{where}: {name}", found, [verdict, verdict == label, verdict])

    def bundle(self, groups: Groups) -> tuple[list[str], list[str]]:
        """The tickets to reflect on by priority, and those for manual review."""
        settings, kinds = self.settings["reflection"], dict[str, int]()
        for name, verdicts in groups.items():
            right = {verdict == self.labels[name] for verdict in verdicts if verdict}
            kinds[name] = 0 if len(right) == 2 else 2 if right == {True} else 1  # mixed, all wrong, all right
        meets = {
            "selected_mismatch_or_all_wrong": lambda one: kinds[one] == 1 or majority(groups[one]) != self.labels[one],
            "contradictions_only": lambda one: kinds[one] == 0,
            "contradictions_or_all_wrong": lambda one: kinds[one] < 2,
        }[settings["eligibility_policy"]]
        is_by_hand = settings["all_wrong_strategy"] == "manual_review"
        by_hand = sorted(one for one in groups if meets(one) and kinds[one] == 1 and is_by_hand)
        return sorted(filter(meets, groups.keys() - {*by_hand}), key=lambda one: (kinds[one], one)), by_hand

    def lines(self, name: str) -> list[Value]:
        return lines_of(self.folder / f"{name}.jsonl")

    def same(self, what: str, found: Any, wanted: Any) -> None:
        if found != wanted:
            self.faults.append(f"{what}: {str(found)[:300]}, not {str(wanted)[:300]}")


def majority(verdicts: Sequence[str | None]) -> str | None:
    """Of the valid ones; a tie goes to fail."""
    passed, failed = verdicts.count("pass"), verdicts.count("fail")
    return None if passed + failed == 0 else "pass" if passed > failed else "fail"


def called(guided: Guided) -> list[Any]:
    """As lines name a guidance: its step and the hash of its canonical JSON (sorted keys, no spaces, UTF-8)."""
    text = json.dumps(guided[1], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return [guided[0], hashlib.sha256(text.encode()).hexdigest()]


def gate(sides: Sequence[Any], settings: Value) -> tuple[str, Value]:
    """The outcome and its figures, of each held-out ticket's label and verdicts before and after an edit.

    The resamples are as docs/guide.md says.
    """
    rises = [after.count(label) - before.count(label) for label, before, after in sides]
    uplift = Fraction(sum(rises), len(rises) * len(sides[0][1]))
    draw = random.Random(settings["runner"]["shuffle_seed"])
    probability = Fraction(sum(sum(draw.choices(rises, k=len(rises))) > 0 for _ in range(1000)), 1000)
    failing = [[majority(verdicts) == "pass" for verdicts in side[1:]] for side in sides if side[0] == "fail"]
    before, after = (Fraction(sum(side[which] for side in failing), max(1, len(failing))) for which in (0, 1))
    holdout = settings["holdout"]
    bounds = {
        "uplift": uplift >= Fraction(str(settings["reflection"]["apply_if_delta"])),
        "probability": probability >= Fraction(str(holdout["min_probability"])),
        "false_pass": after - before <= Fraction(str(holdout["max_false_pass_rise"])),
    }
    figures = {"uplift": uplift, "probability": probability, "false_pass_before": before, "false_pass_after": after}
    outcome = next((name for name, holds in bounds.items() if not holds), "applied")
    return outcome, {"tickets": len(sides), **{name: float(figure) for name, figure in figures.items()}}
