"""Find the tokens that a model wastes: long answers, their compressions, and the tokens that only the former have."""

import json
from pathlib import Path

from orchestrator.api import collect

if __name__ == "__main__":
    run = collect(
        "configs/collect.yaml",
        {
            "data.financebench_path": "examples/eggs.jsonl",
            "phase0.verbose_num_samples": 1,
            "target.max_new_tokens": 24,
            "phase0.k": 10,
        },
        output="outputs/examples/collect",
        quiet=True,
    )

    document = json.loads((Path(run.folder) / "phase0_data.json").read_text())
    pairs = [pair for example in document["splits"]["train"] for pair in example["retained_pairs"]]
    print(f"{run.status.done} of {run.status.total} questions, {len(pairs)} pairs")
    print("wasted:", [token["token_str"] for token in document["token_selection"]["v_steer"]])
