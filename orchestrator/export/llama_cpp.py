"""The file that steers llama.cpp: a processor for llama-cpp-python, and biases for llama-server and llama-cli."""

from tasks.gpu.processor import MAY_END, Parts

_USAGE = """\
llama-cpp-python:

       from llama_cpp import Llama, LogitsProcessorList
       from <this module> import DeltaProcessor

       Llama("<model>.gguf").create_completion("...", logits_processor=LogitsProcessorList([DeltaProcessor()]))

Make a new DeltaProcessor for each answer: it takes the tokens of the first step for the prompt.

llama-server: this prints the entry "logit_bias" for the body of each request, to /completion or to
/v1/chat/completions:

       python <this file> --json

llama-cli: this prints one option --logit-bias for each token. A command line takes about 40,000 of them:

       llama-cli -m <model>.gguf $(python <this file> --arguments)

Both leave out the tokens that get what most tokens get: the same amount on all logits changes no answer. Both refuse an
end of turn that is raised after sentence ends only (SENTENCE_ENDS is not empty): a list of biases acts everywhere."""

_FUNCTIONS = '''\
def token_biases(end=DELTAS["0"]):
    """What is added to the logit of each token, in the order of their ids; `end` is the delta of cluster 0."""
    labels = array.array("B" if LABEL_TYPE == "uint8" else "H", zlib.decompress(base64.b64decode(LABELS)))
    if sys.byteorder == "big":
        labels.byteswap()
    deltas = {**DELTAS, "0": end}
    return [deltas[str(label)] for label in labels]


def logit_bias():
    """The bias of each token id, relative to the bias that most tokens have; those are left out."""
    if SENTENCE_ENDS and DELTAS["0"]:
        sys.exit("a list of biases acts everywhere, and this end of turn is raised after sentence ends only")
    biases = token_biases()
    common = collections.Counter(biases).most_common(1)[0][0]
    return {token: bias - common for token, bias in enumerate(biases) if bias != common}

'''

_OPTIONS = """\
    elif arguments == ["--json"]:
        print(json.dumps({"logit_bias": [[token, bias] for token, bias in logit_bias().items()]}))
    elif arguments == ["--arguments"]:
        print("\\n".join(f"--logit-bias\\n{token}{bias:+.9g}" for token, bias in logit_bias().items()))
"""

_STEERING = (
    f"{MAY_END}\n\n"
    + '''\
@functools.lru_cache(maxsize=2)
def _biases(with_end):
    """What is added to the logit of each token [tokens] float32, with the delta of cluster 0 or without."""
    return numpy.array(token_biases(DELTAS["0"] * with_end), dtype=numpy.float32)


class DeltaProcessor:
    """Adds to each token's logit [vocabulary] float32 the delta of its cluster. For llama-cpp-python."""

    def __init__(self):
        self._prompt = self._length = -1

    def __call__(self, input_ids, scores):
        if len(input_ids) != self._length + 1:  # the first step of an answer
            self._prompt = len(input_ids)
        self._length = len(input_ids)
        biases = _biases(_may_end(input_ids[max(self._prompt, len(input_ids) - 2) :].tolist()))
        if len(scores) < len(biases):
            raise ValueError(f"{len(biases)} labels do not fit {len(scores)} logits: this file is for another model")
        steered = numpy.array(scores, dtype=numpy.float32)
        steered[: len(biases)] += biases
        return steered
'''
)

LLAMA_CPP = Parts(
    title="Steer a model that llama.cpp runs: adds to each token's logit the delta of the token's cluster.",
    contents="the numbers are in DELTAS. Needs numpy and llama-cpp-python, or llama.cpp",
    usage=_USAGE,
    engine="",
    file_name="processor_llama_cpp.py",
    steering=_STEERING,
    functions=_FUNCTIONS,
    options=_OPTIONS,
    imports="import numpy  # noqa: E402",
    first_imports=("import array", "import collections"),
)
