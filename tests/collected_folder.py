"""The folder of a finished collection of two examples: two pairs were retained, and one was discarded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from orchestrator.runs.folder import OutputFolder

VERDICT = {"is_correct": True, "confidence": 1.0, "category": "text", "reasoning": "it agrees"}
RETAINED = [
    {
        "verbose_answer": "v" * verbose, "compressed_answer": "c" * compressed, "correctness": VERDICT,
        "verbose_token_ids": list(range(verbose)), "compressed_token_ids": list(range(compressed)),
    }
    for verbose, compressed in ((8, 3), (6, 5))
]  # fmt: skip
DISCARDED = [{"verbose_answer": "v", "compressed_answer": "", "correctness": VERDICT | {"is_correct": False}}]
EXAMPLES = [
    {
        "example_id": f"e{number}", "context": "", "query": f"question {number}", "gold_answer": "4 %",
        "retained_pairs": retained, "discarded_pairs": discarded,
    }
    for number, (retained, discarded) in enumerate(((RETAINED, []), ([], DISCARDED)))
]  # fmt: skip
DOCUMENT: dict[str, Any] = {
    "metadata": {
        "created_at": "2026-01-01T00:00:00Z", "target_model_id": "m", "reflector_model": "r", "evaluator_model": "j",
    },
    "token_selection": {
        "k": 2, "freq_raw": {"7": 0.5, "3": 0.2}, "freq_comp": {"7": 0.3, "3": 0.1},
        "v_steer": [
            {"token_id": 7, "token_str": " the", "delta": 0.2}, {"token_id": 3, "token_str": "\n", "delta": 0.1},
        ],
    },
    "splits": {"train": EXAMPLES, "val": [], "test": []},
}  # fmt: skip


def collected_folder(path: Path) -> Path:
    """The folder was moved: its settings name a place that is no more."""
    output = OutputFolder(path)
    output.run_id("collect")
    output.write("phase0_data.json", json.dumps(DOCUMENT))
    settings = {"seed": 4, "target": {"model_id": "m"}, "phase0": {"output_path": "/nowhere/phase0_data.json"}}
    output.write("settings.yaml", yaml.safe_dump(settings))
    output.write_json("progress.json", {"done": 2, "total": 2, "is_finished": True, "figures": {"retained_pairs": 2}})
    return output.path
