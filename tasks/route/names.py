"""The names that settings, jobs and reports share."""

from __future__ import annotations

from typing import Literal

PROGRAMS = "programs"
"""The world of small programming problems; any other world is `module:function`."""

Trajectory = Literal["shared", "plain", "erase", "ablated"]
"""`shared`: the rollouts of `none`, with all splits beside each other.  The others sample for themselves.

`plain`: no prompt has a loophole and there is no teacher, so that it shows what training alone gains.
"""

Quarantine = Literal["off", "on"]
NONE = "none"
"""The unrouted adapter: deltaS + deltaS_hack of any split of `shared`."""
REAL = "real"
CEILING = "ceiling"
UNIFORM = "uniform"
RANDOM_SPLITS = tuple(f"random_{number}" for number in range(8))
CONTROLS = ("permuted", "uniform", "band_random")
OTHERS = ("pooled", "activations", "advantage_free", "placebo")


def split_names() -> tuple[str, ...]:
    """Every split that a run may have (tasks/gpu/routing/splits.py)."""
    return (REAL, *OTHERS, *CONTROLS, CEILING, *RANDOM_SPLITS)
