"""Greedy answers of llama.cpp, for an environment that has llama-cpp-python and numpy, and nothing of this project.

Standard input: {"gguf", "file" (the exported one), "prompts", "stops", "tokens"}.  Standard output: the token ids of
each answer as the file's class steers them ("steered"), as llama.cpp's own sampler does with the biases that the file
prints for llama-server ("native"), of a plain loop over llama.cpp's logits plus the biases ("reference"), and of the
same loop without them, of the first ten prompts ("plain").
"""

import importlib
import json
import sys
from pathlib import Path

import llama_cpp
import numpy as np
from llama_cpp._internals import LlamaSampler

asked = json.load(sys.stdin)
sys.path.insert(0, str(Path(asked["file"]).parent))
exported = importlib.import_module(Path(asked["file"]).stem)
model = llama_cpp.Llama(asked["gguf"], n_ctx=2048, n_threads=1, n_threads_batch=1, verbose=False)
biases = np.array(exported.token_biases(), dtype=np.float32)


def logits():
    """Those of the last token [vocabulary]."""
    return np.array(np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(model.ctx, -1), (model.n_vocab(),)))


def highest(added):
    """The token of the highest logit when `added` is added to them."""
    return (logits() + added).argmax()


def answer(prompt, choose):
    """The ids of an answer; `choose` says which token is next, after the model has read the one before."""
    model.reset()
    model.eval(prompt)
    found = []
    while len(found) < asked["tokens"]:
        found.append(int(choose()))
        if found[-1] in asked["stops"]:
            break
        model.eval(found[-1:])
    return found


def steered(prompt):
    """By the library's own loop."""
    model.reset()
    processors = llama_cpp.LogitsProcessorList([exported.DeltaProcessor()])
    found = []
    for token in model.generate(prompt, temp=0.0, repeat_penalty=1.0, logits_processor=processors):
        found.append(int(token))
        if token in asked["stops"] or len(found) == asked["tokens"]:
            return found


native = LlamaSampler()
native.add_logit_bias(model.n_vocab(), exported.logit_bias())
native.add_greedy()
answers = {
    "steered": [steered(prompt) for prompt in asked["prompts"]],
    "native": [answer(prompt, lambda: native.sample(model._ctx, -1)) for prompt in asked["prompts"]],
    "reference": [answer(prompt, lambda: highest(biases)) for prompt in asked["prompts"]],
    "plain": [answer(prompt, lambda: highest(0)) for prompt in asked["prompts"][:10]],
}
json.dump(answers, sys.stdout)
