"""The folder of a finished run with a hand-made book: its systems, its report, and answers before and after."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from measured_book import MARGIN, book, report

from orchestrator.evolve.systems import Book
from orchestrator.report.model import front_file
from orchestrator.report.statistics import Comparison, Measurement
from orchestrator.runs.folder import OutputFolder
from tasks.records import JudgedAnswer


def write_reported(folder: Path, made: Book | None = None) -> Path:
    """The run is named as the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    output, made = OutputFolder(folder), made or book()
    output.write_json("run.json", {"id": f"{folder.name}-1", "kind": "evolve", "folder": str(folder.resolve())})
    output.write("config", f'CONFIG_NGEN=3\nCONFIG_MARGIN="{MARGIN}"\nCONFIG_SEED=7\n')
    output.write_json("questions.json", {"test": {f"q{index}": f"{index}" for index in range(100)}})
    made.write(output)
    found = report(made, run=f"{folder.name}-1")
    output.write_json("report.json", asdict(found))
    output.write_json("front.json", asdict(front_file(found)))
    plain, contender = made.plain.on("test"), made.contender.on("test")
    comparison = Comparison("test set", _answers(plain, "before"), _answers(contender, "after"), made.contender.name)
    output.write_json("answers.json", [asdict(comparison)])
    return folder


def _answers(found: Measurement, text: str) -> tuple[JudgedAnswer, ...]:
    rows = zip(found.examples, found.tokens, found.right, found.whole, strict=True)
    return tuple(
        JudgedAnswer(example, tokens, right, f"{text} {example}\x1b[2J", f"question {example}", "2", "", whole)
        for example, tokens, right, whole in rows
    )
