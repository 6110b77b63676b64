"""The folder of one `orchestrator guide` with its farm: two small missions with a gate, and what became of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from collection_folder import merge
from equal_runs import artifacts_of
from run_folder import ROOT, RunFolder

MISSIONS = {"cabinet": "Whether the cabinet is wired well.", "panels": "Whether the panels are mounted well."}
GOOD, BAD = "the wire is yellow", "the wire is black"
# One batch of each mission, eight held-out tickets, two answers to a ticket.  The gate takes what does no harm.
SMALL = {
    "sampler": {
        "samples_per_decode": 1,
        "grid": [
            {"temperature": heat, "top_p": 0.95, "max_new_tokens": 33} for heat in (0.0, 1.2)
        ],
    },
    "critic": {"max_candidates": 1},
    "reflection": {"batch_size": 16, "apply_if_delta": 0.0},
    "holdout": {"fraction": 0.2, "min_probability": 0.0, "max_false_pass_rise": 1.0},
    "runner": {"epochs": 1},
}  # fmt: skip


@dataclass
class GuideFolder(RunFolder):
    """The folder of one guided run with its farm."""

    @property
    def config(self) -> Path:
        return self.folder / "guide.yaml"

    def configure(self, *changes: dict[str, Any]) -> None:
        """Write the shipped guide.yaml with few short answers, tickets and output in this folder, and `changes`."""
        values = yaml.safe_load((ROOT / "configs" / "guide.yaml").read_text())
        values["missions"] = MISSIONS
        here = {
            "stage_a_paths": [str(self.folder / "tickets.jsonl")],
            "guidance": {"path": str(self.folder / "guidance.json")},
            "output": {"root": str(self.folder), "run_id": self.output.name},
            "critic": {"prompt_path": str(ROOT / "configs" / "guide" / "critic.txt")},
            "reflection": {"prompt_path": str(ROOT / "configs" / "guide" / "reflection.txt")},
        }
        for change in (SMALL, here, *changes):
            merge(values, change)
        self.config.write_text(yaml.safe_dump(values, allow_unicode=True))
        rows = [json.dumps(row) for row in ticket_rows()]
        (self.folder / "tickets.jsonl").write_text("\n".join(rows) + "\n")
        first = {"step": 0, "updated_at": "2026-01-01T00:00:00Z", "experiences": {"G0": "Read every summary."}}
        (self.folder / "guidance.json").write_text(json.dumps(dict.fromkeys(MISSIONS, first)))

    def command(self, *arguments: str, **options: str) -> list[str]:
        assert not options, "a guided run is configured by its file"
        farm = ["--farm-dir", str(self.farm), "--rollout-jobs", "8"]
        return [sys.executable, "-m", "orchestrator", "guide", "--config", str(self.config), *farm, *arguments]

    def result(self) -> dict[str, Any]:
        return artifacts_of(self.output)

    def guidance(self) -> list[Path]:
        """The file of each mission."""
        return [self.output / name / "guidance.json" for name in MISSIONS]

    def settings(self) -> dict[str, Any]:
        """As the run has kept them."""
        found: dict[str, Any] = yaml.safe_load((self.output / "settings.yaml").read_text())
        return found

    def lines(self, mission: str, name: str) -> list[dict[str, Any]]:
        """Of an artifact of a mission."""
        return [json.loads(line) for line in (self.output / mission / name).read_text().splitlines()]


def ticket_rows() -> list[Mapping[str, Any]]:
    """Forty tickets of each mission; a black wire is a fail."""
    return [
        {
            "group_id": f"{name}-{number:02}",
            "mission": name,
            "label": "fail" if number % 2 else "pass",
            "per_image": {"image_1": f"unit {number}: {BAD if number % 2 else GOOD}"},
            "stage_a_complete": True,
        }
        for name in MISSIONS
        for number in range(40)
    ]
