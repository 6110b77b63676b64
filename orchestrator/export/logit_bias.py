"""A list of biases, one a token, for servers that take `logit_bias` in a request.

Adding the same amount to all logits changes no answer, so a list is relative to the bias that most tokens have, and
those tokens are left out.
"""

from __future__ import annotations

import json

from orchestrator.export.steering import ExportedSteering
from orchestrator.runs.folder import OutputError

FILE = "logit_bias.json"
USE = (
    'send "logit_bias" with each request, to a server of OpenAI\'s protocol that has this model and takes so many '
    "biases (OpenAI itself takes at most 300 tokens, each with a bias from -100 to 100)"
)


def bias_document(steering: ExportedSteering) -> str:
    """The text of a JSON file with the biases of all tokens.

    Raises: OutputError where the end of a turn is raised after sentence ends only.
    """
    import numpy as np

    if steering.ends is not None and steering.system.deltas[0]:
        raise OutputError(
            "a list of biases acts everywhere, and this end of turn is raised after sentence ends only: "
            "export to sglang, vllm, transformers or llama-cpp"
        )
    biases = steering.biases.astype(np.float64)
    values, counts = np.unique(biases, return_counts=True)
    relative = biases - values[counts.argmax()]
    listed = {str(token): round(float(relative[token]), 9) for token in relative.nonzero()[0]}
    check = steering.check
    about = {
        "use": USE,
        "model": check.name,
        "config_sha256": check.config,
        "tokenizer_sha256": check.tokenizer,
        "system": steering.system.name,
        "system_prompt": steering.system.system_prompt,
        "tokens": len(listed),
        "clustering": steering.system.clustering,
    }
    return f'{json.dumps({"about": about}, indent=2)[:-2]},\n  "logit_bias": {json.dumps(listed)}\n}}\n'
