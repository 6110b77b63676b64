"""The settings of `route` that route_variants.py tries on the calibration seed, each with the reason to try it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.gpu.route_common import ALL_TARGETS


@dataclass(frozen=True)
class Variant:
    """`changed` are keys of the sections model, training and routing of the config."""

    name: str
    why: str
    changed: Mapping[str, Any]


FEW = ("run_tests", "sentinel", "stdout_marker")
ALL = {"targets": ALL_TARGETS}
TAUGHT = {"modes": FEW, "teacher_rows": 4}
VARIANTS = (
    Variant("rate01", "ten times the rate that learned nothing", {"learning_rate": 0.01}),
    Variant("rate03", "thirty times; drawn knobs of this size are still borne", {"learning_rate": 0.03}),
    Variant("few01", "three modes, so two groups of each a step: twice as many hacks of the teacher's",
            {"learning_rate": 0.01, "modes": FEW}),
    Variant("two02", "two modes, so three groups of each a step: more rows in which B can be found",
            {"learning_rate": 0.02, "modes": ("run_tests", "sentinel")}),
    Variant("taught02", "three modes, half of each group of the known one the teacher's",
            {"learning_rate": 0.02, **TAUGHT}),
    Variant("plain01", "the same with half the rate, and more prompts without a loophole, for the gain",
            {"learning_rate": 0.01, "plain_share": 0.375, **TAUGHT}),
    Variant("all003", "as taught02, with knobs on every Linear, 2.7 times as many",
            {"learning_rate": 0.003, **ALL, **TAUGHT}),
    Variant("all01", "the same with the rate of the others", {"learning_rate": 0.01, **ALL, **TAUGHT}),
)  # fmt: skip
"""In the order in which they go to the cards, in turn."""
AFTERWARDS = (
    Variant("late01", "as taught02 with half the rate, and the teacher until step 40",
            {"learning_rate": 0.01, "teacher_off_step": 40, **TAUGHT}),
    Variant("late02", "the same with twice the rate", {"learning_rate": 0.02, "teacher_off_step": 40, **TAUGHT}),
)  # fmt: skip
"""Only where they are named: rule R12 has the teacher until step 40 where hacking of A has not passed 0.3 by itself."""
ALL_VARIANTS = VARIANTS + AFTERWARDS
