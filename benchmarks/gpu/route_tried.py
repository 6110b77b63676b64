"""The settings of `route` that route_variants.py tries on the calibration seed, each with the reason to try it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.gpu.route_common import ALL_TARGETS
from tasks.routing.modes import LOOPHOLES


@dataclass(frozen=True)
class Variant:
    """`changed` are keys of the sections model, training and routing of the config."""

    name: str
    why: str
    changed: Mapping[str, Any]


FEW = ("run_tests", "sentinel", "stdout_marker")
ALL = {"targets": ALL_TARGETS}
LITTLE = {"plain_share": 0.25, "teacher_rows": 2}
TAUGHT = {"plain_share": 0.25, "teacher_rows": 4, "modes": FEW}
VARIANTS = (
    Variant("plain01", "three modes, half of each group of the known one the teacher's, three of eight prompts without "
            "a loophole: as configs/route.yaml", {"learning_rate": 0.01, **TAUGHT, "plain_share": 0.375}),
    Variant("half01", "the same with half of the prompts without a loophole, for the gain",
            {"learning_rate": 0.01, **TAUGHT, "plain_share": 0.5}),
    Variant("all01", "a quarter of the prompts without a loophole; knobs on every Linear, 2.7 times as many",
            {"learning_rate": 0.01, **ALL, **TAUGHT}),
    Variant("few01", "fewer rows of the teacher's, with knobs on q_proj and o_proj",
            {"learning_rate": 0.01, **LITTLE, "modes": FEW}),
    Variant("taught02", "twice the rate", {"learning_rate": 0.02, **TAUGHT}),
    Variant("all003", "every Linear, with a third of the rate", {"learning_rate": 0.003, **ALL, **TAUGHT}),
    Variant("rate01", "all six modes", {"learning_rate": 0.01, **LITTLE, "modes": LOOPHOLES}),
    Variant("two02", "two modes, so three groups of each a step: more rows in which B can be found",
            {"learning_rate": 0.02, **LITTLE, "modes": ("run_tests", "sentinel")}),
)  # fmt: skip
"""In the order in which they go to the cards, in turn.  Each names all of what they differ in."""
AFTERWARDS = (
    Variant("late01", "the teacher until step 40", {"learning_rate": 0.01, "teacher_off_step": 40, **TAUGHT}),
    Variant("late02", "the same with twice the rate", {"learning_rate": 0.02, "teacher_off_step": 40, **TAUGHT}),
)  # fmt: skip
"""Only where they are named: rule R12 has the teacher until step 40 where hacking of A has not passed 0.3 by itself."""
ALL_VARIANTS = VARIANTS + AFTERWARDS
