"""Find the tokens that a model wastes: long answers, their compressions, and the tokens that only the former have."""

import json
from pathlib import Path

import orchestrator

ROWS = [
    {"question": f"How many eggs does a {size} box hold?", "answer": n, "context": f"A {size} box holds {n} eggs."}
    for size, n in {"small": 4, "common": 6, "large": 10, "very large": 12}.items()
]

if __name__ == "__main__":
    run = orchestrator.collect(
        "configs/collect.yaml",
        {"phase0.verbose_num_samples": 1, "target.max_new_tokens": 24, "phase0.k": 10},
        output="outputs/examples/collect",
        data=ROWS,
        quiet=True,
    )

    document = json.loads((Path(run.folder) / "phase0_data.json").read_text())
    pairs = [pair for example in document["splits"]["train"] for pair in example["retained_pairs"]]
    print(f"{run.status.done} of {run.status.total} questions, {len(pairs)} pairs")
    print("wasted:", [token["token_str"] for token in document["token_selection"]["v_steer"]])
