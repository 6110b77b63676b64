"""The settings of a small `guide`, as its YAML file has them, what is wrong with some, and tickets of Stage-A."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.guide.settings import guide_settings_from
from orchestrator.settings import SettingsError

ROOT = Path(__file__).parents[3]


def guide_values(folder: Path) -> dict[str, Any]:
    """The shipped settings with small numbers, their files in a folder, and every key that may be left out."""
    values: dict[str, Any] = yaml.safe_load((ROOT / "configs" / "guide.yaml").read_text())
    cell = {"temperature": 0.8, "top_p": 0.9, "max_new_tokens": 32, "seed": 7, "stop": ["\n\n"]}
    changes: dict[str, Any] = {
        "model": {"torch_dtype": "auto", "device_map": "cpu"},
        "guidance": {"path": str(folder / "guidance.json"), "retention": 3},
        "output": {"root": str(folder / "outputs"), "run_id": "run"},
        "sampler": {"group_batch_size": 2, "grid": [{"temperature": 0.0, "top_p": 1.0, "max_new_tokens": 32}, cell]},
        "signals": {"weights": {"label_match": 1.0, "self_consistency": 0.5, "confidence": 0.5}},
        "reflection": {"batch_size": 8, "rapid_mode": True},
        "holdout": {"fraction": 0.25, "seed": 5, "max_false_pass_rise": 0.05},
        "runner": {"shuffle_seed": 11},
        "endpoint": {"seed": 3},
    }
    for section, more in changes.items():
        values[section] |= more
    for name in ("critic", "reflection"):
        values[name]["prompt_path"] = str(ROOT / values[name]["prompt_path"])
    files = {"stage_a_paths": [str(folder / "tickets.jsonl")], "missions": {"cabinet": "the cabinet is ready"}}
    return {**values, **files, "verifier": None}


def setting_problems(values: Mapping[str, Any]) -> list[str]:
    """What is wrong with these settings, which are refused."""
    with pytest.raises(SettingsError) as refused:
        guide_settings_from(values)
    return list(refused.value.problems)


def stage_a_row(group_id: str, **changes: Any) -> dict[str, Any]:
    """One line of Stage-A, complete; a change to None takes the field away."""
    row = {
        "group_id": group_id,
        "mission": "cabinet",
        "label": "pass",
        "per_image": {"image_1": f"{group_id}: the door is closed", "image_2": "the cables are tied"},
        "stage_a_complete": True,
        **changes,
    }
    return {name: value for name, value in row.items() if value is not None}


def write_rows(path: Path, rows: Iterable[Mapping[str, Any] | str]) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path
