"""Greedy answers of vLLM on a CPU, for an environment that has vLLM, and nothing of this project.

Standard input: {"model", "file" (the exported one), "prompts", "biases" [V], "stops", "tokens"}.  The last line of
standard output: the token ids of each answer as the file's class steers them ("steered"), with the biases as vLLM's own
`logit_bias` ("native"), of a plain loop over vLLM's logits plus the biases ("reference"), and as the class leaves those
that want no steering ("plain"), of the first ten prompts, in one batch with the steered ones; and the "runner".
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}

from vllm import LLM, SamplingParams, TokensPrompt

asked = json.load(sys.stdin)
MOST = 1000  # logits that are looked at; the others are too low
sys.path.insert(0, str(Path(asked["file"]).parent))
biases = np.array(asked["biases"], dtype=np.float32)
model = LLM(
    asked["model"], dtype="float32", enforce_eager=True, max_model_len=1024, max_num_seqs=32, max_logprobs=MOST,
    logprobs_mode="raw_logits", logits_processors=[f"{Path(asked['file']).stem}:DeltaProcessor"],
)  # fmt: skip


def greedy(tokens, **more):
    return SamplingParams(temperature=0.0, max_tokens=tokens, stop_token_ids=asked["stops"], **more)


def outputs(prompts, options):
    made = model.generate([TokensPrompt(prompt_token_ids=one) for one in prompts], options, use_tqdm=False)
    return [one.outputs[0] for one in made]


def answers(prompts, options):
    return [list(one.token_ids) for one in outputs(prompts, options)]


def highest(output):
    """The token of the highest of vLLM's logits, before any processor, plus the biases."""
    tokens, logits = np.array(output.logprobs.token_ids), np.array(output.logprobs.logprobs, dtype=np.float32)
    sums = logits + biases[tokens]
    assert sums.max() > logits.min() + biases.max(), "a token with a lower logit could be the highest"
    return int(tokens[sums.argmax()])


def reference(prompts):
    """All answers grow by one token a round."""
    found = [[] for _ in prompts]
    one_token = greedy(1, logprobs=MOST, flat_logprobs=True)
    for _ in range(asked["tokens"]):
        growing = [i for i, one in enumerate(found) if not one or one[-1] not in asked["stops"]]
        if growing:
            made = outputs([prompts[i] + found[i] for i in growing], one_token)
            for i, output in zip(growing, made, strict=True):
                found[i].append(highest(output))
    return found


prompts, few = asked["prompts"], asked["prompts"][:10]
alone, native = {"steering": 0}, {token: bias for token, bias in enumerate(asked["biases"]) if bias}
mixed = [greedy(asked["tokens"], extra_args=alone)] * len(few) + [greedy(asked["tokens"])] * len(prompts)
both = answers([*few, *prompts], mixed)
found = {
    "plain": both[: len(few)],
    "steered": both[len(few) :],
    "native": answers(prompts, greedy(asked["tokens"], extra_args=alone, logit_bias=native)),
    "reference": reference(prompts),
    "runner": type(model.llm_engine.model_executor.driver_worker.worker.model_runner).__module__,
}
print(json.dumps(found))
