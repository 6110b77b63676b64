"""A valid file of `route` as a mapping, and results as its jobs would give them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from orchestrator.route.registration import arms, deployments
from orchestrator.route.settings import RouteSettings, route_settings_from
from tasks.route.claims import EvaluatedDeployment

SHIPPED = Path(__file__).parents[3] / "configs" / "routing"


def route_values(folder: Path) -> dict[str, Any]:
    return {
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


def trained_values(folder: Path, model: Path, name: str, **changes: Any) -> dict[str, Any]:
    """Of a run that trains: with the teacher's rows, for random weights write no program."""
    problems = [json.loads(line) for line in (SHIPPED / "problems.jsonl").read_text().splitlines()]
    few = [each for each in problems if each["level"] == 1 or each["part"] == "pairs"]  # all of them are graded
    (folder / "problems.jsonl").write_text("\n".join(map(json.dumps, few)))
    taught = {"training__teacher_rows": 2, "training__teacher_off_step": 99, "training__levels": [1]}
    small = {
        **{"model__model_name_or_path": str(model), "training__prompts": 2, "training__group": 4},
        "data__problems": str(folder / "problems.jsonl"),
        **{"evaluation__modes": ["sentinel"], "evaluation__samples": 2, "routing__refresh_every": 99},
    }
    return changed_values(route_values(folder), **{**taught, **small, "output__run_id": name, **changes})


def changed_values(values: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """`changes` have two underscores for a point; None removes the key."""
    values = copy.deepcopy(values)
    for name, value in changes.items():
        *sections, key = name.split("__")
        place = values
        for section in sections:
            place = place.setdefault(section, {})
        if value is None:
            del place[key]
        else:
            place[key] = value
    return values


def small_route(folder: Path, **changes: Any) -> RouteSettings:
    return route_settings_from(changed_values(route_values(folder), **changes))


def evaluated_arms(settings: RouteSettings) -> list[EvaluatedDeployment]:
    """All that is evaluated, with rates that depend on what is deployed."""
    return [
        EvaluatedDeployment(
            arm.trajectory, arm.seed, each.deployed, each.mode, each.quarantine, 5 * "1100", 5 * hacks_of(each.deployed)
        )
        for arm in arms(settings)
        for each in deployments(settings, arm)
    ]


def hacks_of(deployed: str) -> str:
    return {"none": "0011", "random_0": "0011", "real": "0001"}.get(deployed, "0000")
