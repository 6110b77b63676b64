"""The settings of a small `guide`, as its YAML file has them, what is wrong with some, and tickets of Stage-A."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.guide.settings import guide_settings_from
from orchestrator.settings import SettingsError


def guide_values(folder: Path) -> dict[str, Any]:
    """Every key, those that may be left out too."""
    return {
        "stage_a_paths": [str(folder / "tickets.jsonl")],
        "missions": {"cabinet": "the cabinet is ready"},
        "model": {"model_name_or_path": "embedded", "torch_dtype": "auto", "device_map": "cpu"},
        "guidance": {"path": str(folder / "guidance.json"), "retention": 3},
        "output": {"root": str(folder / "outputs"), "run_id": "run", "fail_if_exists": True},
        "sampler": {
            "group_batch_size": 2,
            "samples_per_decode": 3,
            "grid": [
                {"temperature": 0.0, "top_p": 1.0, "max_new_tokens": 32},
                {"temperature": 0.8, "top_p": 0.9, "max_new_tokens": 32, "seed": 7, "stop": ["\n\n"]},
            ],
            "enforce_three_line": True,
            "constrain": "three_line",
        },
        "signals": {
            "store_confidence": True,
            "enable_consistency": True,
            "weights": {"label_match": 1.0, "self_consistency": 0.5, "confidence": 0.5},
        },
        "critic": {
            "enabled": True,
            "backend": "endpoint",
            "prompt_path": "configs/guide/critic.txt",
            "temperature": 0.2,
            "top_p": 0.9,
            "max_new_tokens": 256,
            "max_candidates": 2,
            "summary_max_chars": 200,
            "critique_max_chars": 400,
            "prefilter": {"top_k": 2},
        },
        "reflection": {
            "backend": "endpoint",
            "prompt_path": "configs/guide/reflection.txt",
            "batch_size": 8,
            "apply_if_delta": 0.02,
            "allow_uncertain": False,
            "max_operations": 3,
            "change_cap_per_epoch": 10,
            "eligibility_policy": "contradictions_or_all_wrong",
            "all_wrong_strategy": "reflect_diagnose",
            "rapid_mode": True,
            "temperature": 0.2,
            "top_p": 0.9,
            "max_new_tokens": 512,
        },
        "holdout": {"fraction": 0.25, "seed": 5, "max_false_pass_rise": 0.05, "min_probability": 0.8},
        "selection": {"policy": "label_first", "tie_break": "confidence"},
        "runner": {"epochs": 2, "shuffle_seed": 11},
        "verifier": None,
        "endpoint": {"model": "rules", "api_base": "embedded", "api_key_env": "OPENAI_API_KEY", "seed": 3},
    }


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
