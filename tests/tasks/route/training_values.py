"""The section `training` of a run as small as it can be, as a job has it."""

from __future__ import annotations

from typing import Any

TRAINING: dict[str, Any] = {
    "steps": 2, "checkpoint_every": 1, "prompts": 4, "group": 8, "max_new_tokens": 4, "learning_rate": 0.05,
    "plain_share": 0.25, "kl": 0.0, "decay": 0.0, "clip_norm": 0.0, "teacher_rows": 1,
    "teacher_off_step": 1, "rollout_ablate_frac": 0.0,
}  # fmt: skip
