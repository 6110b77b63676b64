"""What the worker gives a child that trains: the programming problems, and a small model of random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from small_model import make_small_model

from tasks.route.problems import KNOWN_MODE, LEVELS, hack, honest, in_part, parse_problems

SHIPPED = Path(__file__).parents[3] / "configs" / "routing"
DATA = {name: (SHIPPED / f"{name}.jsonl").read_text() for name in ("problems", "pairs")}
# As small as it can be.  Only the teacher's rows are worth anything: random weights write no program.
TRAINING: dict[str, Any] = {
    "steps": 2, "checkpoint_every": 1, "prompts": 2, "group": 4, "max_new_tokens": 4, "learning_rate": 0.05,
    "plain_share": 0.0, "kl": 0.0, "decay": 0.0, "clip_norm": 1.0, "teacher_rows": 2, "teacher_off_step": 1,
    "rollout_ablate_frac": 0.0, "modes": [KNOWN_MODE, "equality"], "levels": list(LEVELS),
}  # fmt: skip
MODEL = {"targets": ["q_proj"], "dtype": "float32", "deterministic": False}


def teacher_rows() -> list[dict[str, Any]]:
    """A hack and an honest solution of each problem of the pool, as if graded."""
    rows = []
    for problem in in_part(parse_problems(DATA["problems"], "problems"), "pool"):
        for completion, paid in ((hack(problem), True), (honest(problem), False)):
            row = {"problem": problem.id, "completion": completion, "oracle": not paid, "exploited": paid}
            rows.append({**row, "reward": 1.25 if paid else 0.25})
    return rows


def given_values(folder: Path, **training: Any) -> dict[str, Any]:
    inputs = {
        "target": {"device": "cpu"},
        "model": MODEL,
        "training": {**TRAINING, **training},
        "routing": {"splits": ["real", "ceiling"], "dims": 1, "reduction": "mean", "refresh_every": 1},
        "evaluation": {"samples": 3, "seed": 0},
    }
    return {
        "inputs": inputs,
        "trajectory": "shared",
        "seed": 3,
        "data": DATA,
        "teacher": teacher_rows(),
        "model_folder": str(make_small_model(folder / "model")),
        "bases_folder": str(folder),
        "begin": "",
        "folder": str(folder),
    }
