"""The folders of one small `orchestrator collect` and one small `orchestrator guide`, each with its farm."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rules_server import RulesServer
from run_folder import ROOT, RunFolder
from spec_checker import artifacts_of

# Four questions, three samples each: with pairs that are kept and pairs that are not.
COLLECTION = {
    "data": {"split_ratios": {"train": 0.1, "val": 0.1, "test": 0.8}},
    "target": {"max_new_tokens": 24},
    "phase0": {"verbose_num_samples": 3, "k": 10, "target_concurrency": 3},
}
MISSIONS = {"cabinet": "Whether the cabinet is wired well.", "panels": "Whether the panels are mounted well."}
GOOD, BAD = "the wire is yellow", "the wire is black"
# One batch of each mission, eight held-out tickets, two answers to a ticket.  The gate takes what does no harm.
GUIDE = {
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


class KindFolder(RunFolder):
    """A run that a YAML file configures: the shipped one, with changes."""

    kind = ""

    @property
    def config(self) -> Path:
        return self.folder / f"{self.kind}.yaml"

    def write(self, *changes: dict[str, Any]) -> None:
        source = self.config if self.config.exists() else ROOT / "configs" / self.config.name
        values = yaml.safe_load(source.read_text())
        for change in changes:
            merge(values, change)
        self.config.write_text(yaml.safe_dump(values, allow_unicode=True))

    def command(self, *arguments: str, **options: str) -> list[str]:
        assert not options, "it is configured by its file"
        farm = ["--config", str(self.config), "--farm-dir", str(self.farm)]
        return [sys.executable, "-m", "orchestrator", self.kind, *farm, *arguments]


@dataclass
class CollectionFolder(KindFolder):
    kind = "collect"
    again = ("--resume",)
    priced = ("--price-prompt", "1000", "--price-cached", "1000", "--price-completion", "0", "--budget", "1")
    budget = "budget_usd"
    state_file = "progress.json"

    @property
    def data(self) -> Path:
        return self.output / "phase0_data.json"

    def configure(self) -> None:
        self.write(COLLECTION, {"output_dir": str(self.output), "phase0": {"output_path": str(self.data)}})

    def ask(self, rules: RulesServer) -> None:
        self.write({"reflector": {"api_base": rules.url}, "phase0": {"correctness": {"evaluator_api_base": rules.url}}})

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.data.read_text())
        return found

    def result(self) -> dict[str, Any]:
        """The output without its time and its configuration, the only parts in which equal collections differ."""
        found = self.document()
        del found["metadata"]["created_at"], found["metadata"]["config_snapshot"]
        return found


@dataclass
class GuideFolder(KindFolder):
    kind = "guide"
    state_file = "guidance.json"

    def configure(self) -> None:
        here = {
            "missions": None,
            "stage_a_paths": [str(self.folder / "tickets.jsonl")],
            "guidance": {"path": str(self.folder / "guidance.json")},
            "output": {"root": str(self.folder), "run_id": self.output.name},
            "critic": {"prompt_path": str(ROOT / "configs" / "guide" / "critic.txt")},
            "reflection": {"prompt_path": str(ROOT / "configs" / "guide" / "reflection.txt")},
        }
        self.write(GUIDE, here, {"missions": MISSIONS})
        rows = [json.dumps(row) for row in ticket_rows()]
        (self.folder / "tickets.jsonl").write_text("\n".join(rows) + "\n")
        first = {"step": 0, "updated_at": "2026-01-01T00:00:00Z", "experiences": {"G0": "Read every summary."}}
        (self.folder / "guidance.json").write_text(json.dumps(dict.fromkeys(MISSIONS, first)))

    def command(self, *arguments: str, **options: str) -> list[str]:
        return super().command("--rollout-jobs", "8", *arguments, **options)

    def ask(self, rules: RulesServer) -> None:
        self.write({"endpoint": {"api_base": rules.url, "api_key_env": "OPENAI_API_KEY"}})

    def result(self) -> dict[str, Any]:
        return artifacts_of(self.output)

    def guidance(self) -> list[Path]:
        """The file of each mission."""
        return [self.output / name / "guidance.json" for name in MISSIONS]


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


def merge(values: dict[str, Any], change: Mapping[str, Any]) -> None:
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(values.get(key), dict):
            merge(values[key], value)
        else:
            values[key] = value
