"""What a guided run has left, in a form in which equal runs are equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ALTERS = {"created_at", "updated_at", "run"}  # times, and the run's name


def artifacts_of(run: Path) -> dict[str, Any]:
    """Every file of each mission but the journal; reflections are called by their places, snapshots by their order."""
    found: dict[str, Any] = {}
    for mission in sorted(path.parent for path in run.glob("*/guidance.json")):
        reflections = mission / "reflection.jsonl"
        lines = [json.loads(line) for line in reflections.read_text().splitlines()] if reflections.exists() else []
        places = {line["reflection_id"]: f"{line['epoch']}/{line['step']}" for line in lines}
        for number, path in enumerate(sorted(mission.rglob("*.json*"))):
            if path.name == "journal.jsonl":
                continue
            text = path.read_text()
            for reflection, place in places.items():
                text = text.replace(reflection, place)
            values = [json.loads(line) for line in ([text] if path.suffix == ".json" else text.splitlines())]
            is_snapshot = path.parent.name == "snapshots"
            name = f"snapshot {number}" if is_snapshot else str(path.relative_to(mission))
            found[f"{mission.name}/{name}"] = _plain(values)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items() if name not in ALTERS}
    return [_plain(part) for part in value] if isinstance(value, list) else value
