"""A valid file of `route` as a mapping."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dotted_values import with_value

from orchestrator.route.settings import RouteSettings, route_settings_from

SHIPPED = Path(__file__).parents[3] / "configs" / "routing"


def route_values(folder: Path, changes: dict[str, Any]) -> dict[str, Any]:
    """With `changes` by dotted names."""
    values: dict[str, Any] = {
        "model": {"model_name_or_path": "small", "targets": ["q_proj"]},
        "data": {name: str(SHIPPED / f"{name}.jsonl") for name in ("problems", "pairs")},
        "training": {
            "trajectories": ["shared"], "seeds": [0, 1], "steps": 4, "checkpoint_every": 2, "prompts": 4, "group": 8,
            "modes": ["run_tests", "sentinel"], "max_new_tokens": 4, "learning_rate": 0.05, "teacher_rows": 1,
            "teacher_off_step": 2, "clip_norm": 0.0,
        },
        "routing": {"splits": ["real", "ceiling", "random_0"], "refresh_every": 2},
        "evaluation": {"modes": ["sentinel", "none"], "samples": 20, "scales": [0.5]},
        "claims": {"held_out_mode": "sentinel"},
        "output": {"root": str(folder / "outputs"), "run_id": "run"},
    }  # fmt: skip
    for name, value in changes.items():
        values = with_value(values, name, value)
    return values


def small_route(folder: Path, changes: dict[str, Any] | None = None) -> RouteSettings:
    return route_settings_from(route_values(folder, changes or {}))
