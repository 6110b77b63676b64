"""A made-up run that trackers follow: its folder, and sessions that tell them of it as the driver does."""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from measured_book import EVOLVED, MARGIN, book, report

from orchestrator.callbacks import Callbacks, GenerationInfo, RunEnd, RunInfo, load_callbacks
from orchestrator.runs.folder import OutputFolder

SETTINGS = {"seed": 7, "cxpb": 0.5, "judge": "exact_number", "evaluation_cache": True, "clusters_from": None}
FINISHED = RunEnd("finished")


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
    run_id: str = "demo-1a2b"
    lines: list[str] = field(default_factory=list)

    @property
    def output(self) -> OutputFolder:
        return OutputFolder(self.folder)

    def session(self, trackers: str | Sequence[Any], done: int, until: int, end: RunEnd = FINISHED) -> None:
        """A session that records the generations from `done` to before `until`."""
        self.folder.mkdir(exist_ok=True)
        made = load_callbacks(trackers, "CALLBACKS") if isinstance(trackers, str) else trackers
        told = Callbacks(made, self.lines.append)
        told.start(RunInfo(self.run_id, "evolve", self.folder, self.settings, 3, done))
        for number in range(done, until):
            lines = [json.dumps(record(before)) + "\n" for before in range(number + 1)]
            self.output.write("history.jsonl", "".join(lines))
            told.end_generation(GenerationInfo(number, record(number), {"0": 0.5}, ""))
        if end.state == "finished":
            self.write_result()
        told.end(end)

    def write_result(self) -> None:
        self.output.write_json("run.json", {"id": self.run_id, "kind": "evolve", "folder": str(self.folder)})
        self.output.write("config", f'CONFIG_MARGIN="{MARGIN}"\nCONFIG_SEED=7\n')
        book().write(self.output)
        self.output.write_json("answers.json", [])
        self.output.write_json("report.json", self.report())
        self.output.write("report.txt", "It saves tokens.\nOn 300 questions.\n")
        self.output.write("fitness.png", png(3, 2))
        self.output.write("processor_best.py", "print('steer')\n")

    def report(self) -> dict[str, Any]:
        return asdict(report(run=self.run_id))

    def winner(self) -> dict[str, Any]:
        """Its system in the report."""
        return asdict(report().system(EVOLVED))


def png(width: int, height: int) -> bytes:
    """A picture with random pixels, as RGBA."""
    rng = random.Random(1)
    rows = b"".join(b"\0" + rng.randbytes(4 * width) for _ in range(height))
    parts = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)), (b"IDAT", zlib.compress(rows)))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in (*parts, (b"IEND", b""))
    )
