"""The file that steers vLLM: one class for the logits processors of model runner V1 and of model runner V2.

vLLM chooses the runner; V1's interface works on the rows of its persistent batch, V2's on slots of requests.
"""

from tasks.gpu.processor import Parts

_USAGE = """\
Start the server with this file's folder on its module path:

       PYTHONPATH=<this folder> vllm serve <model> --logits-processors <this module>:DeltaProcessor

It steers every request. One with "vllm_xargs": {"steering": 0} in its body is left as it is; offline that is
SamplingParams(extra_args={"steering": 0}). With another model than this file was made for, vLLM does not start.
For vLLM 0.10.1 or newer; model runner V1 takes no processor together with speculative decoding."""

_ENGINE = '''\
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
    usage=_USAGE,
    engine=_ENGINE,
    file_name="processor_vllm.py",
    first_imports=("import importlib",),
)
