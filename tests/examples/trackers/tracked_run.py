"""A made-up run that trackers follow: its folder, and sessions that tell them of it as the driver does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from measured_book import EVOLVED, report
from PIL import Image
from reported_run import write_reported

from orchestrator.callbacks import Callbacks, GenerationInfo, RunEnd, RunInfo, load_callbacks

SETTINGS = {"seed": 7, "cxpb": 0.5, "judge": "exact_number", "evaluation_cache": True, "clusters_from": None}
FINISHED = RunEnd("finished")
FILES = {
    "report.json", "report.txt", "fitness.png", "processor_best.py", "history.jsonl", "systems.json", "front.json",
    "answers.json", "config",
}  # fmt: skip
"""What a tracker gets of a finished run."""


def record(number: int) -> dict[str, Any]:
    """A line of history.jsonl."""
    score = {"fitness": 0.5 + number / 10, "shortness": 0.4, "correctness": 0.75, "mean_tokens": 40.5 - number}
    return {
        "generation": number, "best": score["fitness"], "mean": 0.25, "best_ever": score["fitness"],
        "population": [{"node": f"g{number}_pop0", **score}], "offspring": [],
        "evaluations": {"computed": 3, "cached": 2, "carried": 0}, "seconds": {"wall": 1.5, "answer": 1.25},
        "tokens": {"target": 100, "prompt": 50, "cached": 0, "completion": 20}, "calls": 4, "cost_usd": None,
    }  # fmt: skip


@dataclass
class TrackedRun:
    """`lines` are what was reported to the terminal."""

    folder: Path
    settings: dict[str, Any] = field(default_factory=lambda: dict(SETTINGS))
    lines: list[str] = field(default_factory=list)

    @property
    def run_id(self) -> str:
        return f"{self.folder.name}-1"

    def session(self, trackers: str | Sequence[Any], done: int, until: int, end: RunEnd = FINISHED) -> None:
        """A session that records the generations from `done` to before `until`."""
        self.folder.mkdir(exist_ok=True)
        made: Any = load_callbacks(trackers, "CALLBACKS") if isinstance(trackers, str) else trackers
        told = Callbacks(made, self.lines.append)
        told.start(RunInfo(self.run_id, "evolve", self.folder, self.settings, 3, done))
        for number in range(done, until):
            lines = [json.dumps(record(before)) + "\n" for before in range(number + 1)]
            (self.folder / "history.jsonl").write_text("".join(lines))
            told.end_generation(GenerationInfo(number, record(number), {"0": 0.5}, ""))
        if end.state == "finished":
            write_reported(self.folder)
            (self.folder / "report.txt").write_text("It saves tokens.\nOn 300 questions.\n")
            (self.folder / "processor_best.py").write_text("print('steer')\n")
            Image.effect_noise((3, 2), 50).convert("RGBA").save(self.folder / "fitness.png")
        told.end(end)

    def report(self) -> dict[str, Any]:
        return asdict(report(run=self.run_id))

    def winner(self) -> dict[str, Any]:
        """Its system in the report."""
        return asdict(report().system(EVOLVED))
