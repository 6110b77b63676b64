"""The file that steers transformers' `generate`."""

from tasks.gpu.processor import TORCH, Parts

_USAGE = """\
       from transformers import AutoModelForCausalLM, AutoTokenizer, LogitsProcessorList
       from <this module> import DeltaProcessor, check_model

       check_model("<folder or name of the model>")  # raises for another one than this file was made for
       model.generate(**inputs, logits_processor=LogitsProcessorList([DeltaProcessor()]))

Make a new DeltaProcessor for each call of generate: it takes the tokens of the first step for the prompt."""

_ENGINE = '''\
class DeltaProcessor(LogitsProcessor):
    """Adds to each token's logit [rows, vocabulary] the delta of its cluster."""

    def __init__(self):
        self._prompt = self._length = -1

    def __call__(self, input_ids, scores):
        if input_ids.shape[1] != self._length + 1:  # the first step of an answer
            self._prompt = input_ids.shape[1]
        self._length = input_ids.shape[1]
        answers = input_ids[:, max(self._prompt, self._length - 2) :].tolist()
        return scores + _biases(answers, scores.shape[-1], scores.device).to(scores.dtype)'''

TRANSFORMERS = Parts(
    title="Steer a model that transformers runs: adds to each token's logit the delta of the token's cluster.",
    contents="the numbers to read are in DELTAS. Needs torch and transformers",
    usage=_USAGE,
    engine=_ENGINE,
    file_name="processor_transformers.py",
    imports=f"{TORCH}\nfrom transformers import LogitsProcessor  # noqa: E402",
)
