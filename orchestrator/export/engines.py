"""The texts of the files that steer other engines; all steer alike: logits += deltas[labels].

llama.cpp: a processor for llama-cpp-python, and biases for llama-server.  transformers: a processor of
`generate`.  vLLM: one class for the logits processors of model runner V1 and of model runner V2; vLLM chooses the
runner, V1's interface works on the rows of its persistent batch, V2's on slots of requests.
"""

from tasks.gpu.processor import MAY_END, TORCH, Parts

_LLAMA_USAGE = """\
llama-cpp-python: as in the program below. Make a new DeltaProcessor for each answer: it takes the tokens of the first
step for the prompt.

llama-server: this prints the entry "logit_bias" for the body of each request, to /completion or to
/v1/chat/completions:

       python <this file> --json

It leaves out the tokens that get what most tokens get: the same amount on all logits changes no answer. It refuses an
end of turn that is raised after sentence ends only (SENTENCE_ENDS is not empty): a list of biases acts everywhere."""

_LLAMA_FUNCTIONS = '''\
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

_LLAMA_OPTIONS = """\
    elif arguments == ["--json"]:
        print(json.dumps({"logit_bias": [[token, bias] for token, bias in logit_bias().items()]}))
"""

_LLAMA_STEERING = (
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
    usage=_LLAMA_USAGE,
    engine="",
    file_name="processor_llama_cpp.py",
    steering=_LLAMA_STEERING,
    functions=_LLAMA_FUNCTIONS,
    options=_LLAMA_OPTIONS,
    imports="import numpy  # noqa: E402",
    first_imports=("import array", "import collections"),
)

_TRANSFORMERS_USAGE = """\
As in the program below; check_model raises for another model than this file was made for.
Make a new DeltaProcessor for each call of generate: it takes the tokens of the first step for the prompt."""

_TRANSFORMERS_ENGINE = '''\
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
    usage=_TRANSFORMERS_USAGE,
    engine=_TRANSFORMERS_ENGINE,
    file_name="processor_transformers.py",
    imports=f"{TORCH}\nfrom transformers import LogitsProcessor  # noqa: E402",
)

_VLLM_USAGE = """\
Start the server with this file's folder on its module path:

       PYTHONPATH=<this folder> vllm serve <model> --logits-processors <this module>:DeltaProcessor

It steers every request. One with "vllm_xargs": {"steering": 0} in its body is left as it is; offline that is
SamplingParams(extra_args={"steering": 0}). With another model than this file was made for, vLLM does not start.
For vLLM 0.10.1 or newer; model runner V1 takes no processor together with speculative decoding."""

_VLLM_ENGINE = '''\
def _interfaces():
    """The base classes that this vLLM has: those of model runner V1, V2, or both."""
    found = []
    for module in ("vllm.v1.sample.logits_processor", "vllm.v1.worker.gpu.sample.logits_processor"):
        try:
            found.append(importlib.import_module(module).LogitsProcessor)
        except (ImportError, AttributeError):
            continue
    if not found:
        raise ImportError("this vLLM has no interface for logits processors; 0.10.1 or newer has one")
    return found


def _is_steered(sampling_params):
    value = (sampling_params.extra_args or {}).get("steering", 1)
    if isinstance(value, bool) or value not in (0, 1):
        raise ValueError(f"steering must be 0 or 1, not {value!r}")
    return value == 1


class DeltaProcessor(*_interfaces()):
    """Adds to each token's logit [rows, vocabulary] the delta of its cluster.

    `_requests` holds whether a request is steered and, in V1, its answer's tokens, which vLLM keeps up to date: by its
    row in V1, by its slot in V2.
    """

    def __init__(self, vllm_config, state, is_pin_memory=False):
        check_model(vllm_config.model_config.model)
        self._state = state
        self._requests = {}

    @classmethod
    def validate_params(cls, sampling_params):
        _is_steered(sampling_params)

    def is_argmax_invariant(self):
        return False

    def update_state(self, batch_update):
        """Model runner V1: requests left, joined or changed their row, in this order."""
        if batch_update is None:
            return
        for row in batch_update.removed:
            self._requests.pop(row, None)
        for row, sampling_params, _, answer in batch_update.added:
            self._requests[row] = _is_steered(sampling_params), answer
        for first, second, direction in batch_update.moved:
            moved, other = self._requests.pop(first), self._requests.pop(second, None)
            self._requests[second] = moved
            if direction.name == "SWAP":
                self._requests[first] = other

    def add_request(self, req_idx, sampling_params):
        """Model runner V2: a request takes a slot; whether it is steered."""
        self._requests[req_idx] = _is_steered(sampling_params), ()
        return self._requests[req_idx][0]

    def apply(self, logits, ctx=None):
        """`ctx` is V2's: the slot of each row, and the token before it."""
        width, device = logits.shape[-1], logits.device
        if ctx is None:
            bias = _biases([self._requests[row][1] for row in range(len(logits))], width, device)
        else:
            bias = _bias(width, device)[self._ends_sentence(ctx).long()] if SENTENCE_ENDS else _bias(width, device)[1:]
        alone = [place for place, (steered, _) in self._requests.items() if not steered]
        if alone:
            places = torch.arange(len(logits), device=device) if ctx is None else ctx.expanded_idx_mapping
            bias = bias * ~torch.isin(places, torch.tensor(alone, device=device))[:, None]
        return logits.add_(bias.to(logits.dtype))

    def _ends_sentence(self, ctx):
        """Model runner V2: whether the answer's token before each row ends a sentence [rows] uint8, on the device."""
        slots, classes = ctx.expanded_idx_mapping.long(), _class_table(ctx.input_ids.device)
        first = self._state.prompt_len.gpu[slots]  # the position of the answer's first token
        earlier = self._state.all_token_ids.gpu[slots, (ctx.pos.long() - 1).clamp(min=0)]
        # Behind a drafted token the one before is in the row before.
        earlier = torch.where(ctx.expanded_local_pos > 0, ctx.input_ids.roll(1), earlier)

        def class_of(tokens, positions):
            return classes[tokens.long().clamp(max=len(classes) - 1)] * (positions >= first)

        return _ends_sentence(class_of(ctx.input_ids, ctx.pos), class_of(earlier, ctx.pos - 1))


@functools.lru_cache(maxsize=8)
def _class_table(device):
    """The classes of SENTENCE_ENDS, and a 0 for all further tokens, uint8."""
    return torch.frombuffer(bytearray(_classes() + bytes(1)), dtype=torch.uint8).to(device)'''

VLLM = Parts(
    title="Steer a model that vLLM serves: adds to each token's logit the delta of the token's cluster.",
    contents="the numbers to read are in DELTAS. Needs torch and vLLM",
    usage=_VLLM_USAGE,
    engine=_VLLM_ENGINE,
    file_name="processor_vllm.py",
    first_imports=("import importlib",),
)
