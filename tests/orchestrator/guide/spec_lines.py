"""Checks the lines of one mission's artifacts: each rollout, trajectory and selection is recomputed and compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from spec_rules import Groups, Read, Value, hash_of, read_candidate, selections, signals

COPIED = ("group_id", "candidate_index", "decode", "response_text", "guidance_step", "guidance_hash", "format_ok")


def lines_of(path: Path) -> list[Value]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Unreadable(Exception):
    """The artifacts have another structure, so that nothing more can be checked."""


@dataclass
class LineChecker:
    """The checks of single lines, and the faults that they find.

    settings: as the YAML file has them, every key.  tickets: the lines of Stage-A of this mission, all complete.
    """

    folder: Path
    mission: str
    settings: Mapping[str, Any]
    tickets: Sequence[Mapping[str, Any]]
    faults: list[str] = field(default_factory=list)

    @cached_property
    def by_id(self) -> dict[str, Mapping[str, Any]]:
        return {ticket["group_id"]: ticket for ticket in self.tickets}

    @cached_property
    def held_out(self) -> set[str]:
        """The tickets of no epoch.  Which ones the seed draws is the project's; how many is the fraction's."""
        trained = lines_of(self.folder / "epoch_1" / "shuffled_data.jsonl")
        return self.by_id.keys() - {line["group_id"] for line in trained}

    def rollout(
        self,
        name: str,
        place: Value,
        order: Sequence[str],
        purpose: str,
        step: int,
        experiences: Value,
        seeds_of: str = "",
    ) -> dict[str, tuple[str, list[Read]]]:
        """The candidates of each ticket of a file, with its label: K in the order of the grid, R14."""
        found = [line for line in lines_of(self.folder / name) if line["purpose"] == purpose]
        cells, samples = self.settings["sampler"]["grid"], self.settings["sampler"]["samples_per_decode"]
        grid = [(cell, j) for cell in cells for j in range(1 if cell["temperature"] == 0 else samples)]
        wanted = [(one, index) for one in order for index in range(len(grid))]
        self.require(f"{name}: {purpose}", [(line["group_id"], line["candidate_index"]) for line in found], wanted)
        groups: Groups = {one: (self.by_id[one]["label"], []) for one in order}
        first = 0
        for line in found:
            (cell, sample), read = grid[line["candidate_index"]], read_candidate(line)
            first = line["decode"]["seed"] if sample == 0 else first
            seed = first if cell["seed"] is None or purpose in ("before", "after", "final") else cell["seed"]
            about = {"decode": {**cell, "stop": list(cell["stop"]), "seed": seed + sample}, **place}
            about |= {
                "guidance_step": step,
                "guidance_hash": hash_of(experiences),
                "format_ok": read.verdict is not None,
            }
            for key, value in about.items():
                self.same(f"{name}: {line['group_id']}: {key}", line[key], value)
            self.same(f"{name}: warnings", any(w.startswith("malformed") for w in line["warnings"]), not read.verdict)
            groups[line["group_id"]][1].append(read)
        if seeds_of:
            paired = lines_of(self.folder / seeds_of / "rollout.jsonl")
            self.same(f"{name}: seeds", [one["decode"] for one in found], [one["decode"] for one in paired])
        return groups

    def trajectories(self, where: str, place: Value, groups: Groups) -> None:
        """What is found of each candidate, from what the model wrote."""
        raw, found = (lines_of(self.folder / where / f"{name}.jsonl") for name in ("rollout", "trajectories"))
        self.require(f"{where}: trajectories", len(found), len(raw))
        measured = {name: signals(label, each, self.settings["signals"]) for name, (label, each) in groups.items()}
        for line, source in zip(found, raw, strict=True):
            name, index = source["group_id"], source["candidate_index"]
            read = read_candidate(source)
            wanted = {key: source[key] for key in COPIED} | place
            wanted |= {"verdict": read.verdict, "reason": read.reason, "confidence": read.confidence}
            wanted |= {"signals": measured[name][index]}
            for key, value in wanted.items():
                self.same(f"{where}/trajectories.jsonl: {name} {index}: {key}", line[key], value)
            warnings = [one for one in line["warnings"] if one != "critic_rejected"]
            self.same(f"{where}/trajectories.jsonl: {name} {index}: warnings", warnings, source["warnings"])

    def selection(self, place: Value, name: str, groups: Groups, guided: Value) -> Value:
        label, candidates = groups[name]
        first, free = selections(label, candidates, self.settings)
        ticket, malformed = self.by_id[name], sum(one.verdict is None for one in candidates)
        return {
            "group_id": name,
            **place,
            "label": label,
            "label_source": ticket.get("label_source"),
            "label_timestamp": ticket.get("label_timestamp"),
            "verdict": first.verdict if first else None,
            "reason": first.reason if first else None,
            "confidence": first.confidence if first else None,
            "label_match": first is not None and first.verdict == label,
            "selected_candidate": first.index if first else None,
            "label_free": {
                "verdict": free.verdict if free else None,
                "selected_candidate": free.index if free else None,
                "label_match": free is not None and free.verdict == label,
            },
            **guided,
            "warnings": ["no_valid_candidate"] if not first else ["malformed_candidates"] if malformed else [],
        }

    def same(self, what: str, found: Any, wanted: Any) -> None:
        if found != wanted:
            self.faults.append(f"{what}: {_shown(found)}, not {_shown(wanted)}")

    def require(self, what: str, found: Any, wanted: Any) -> None:
        """Raises: Unreadable."""
        self.same(what, found, wanted)
        if found != wanted:
            raise Unreadable


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)[:300]
