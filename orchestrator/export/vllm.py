"""The file that steers vLLM: one class for the logits processors of model runner V1 and of model runner V2.

vLLM chooses the runner; V1's interface works on the rows of its persistent batch, V2's on slots of requests.
"""

from tasks.gpu.processor_template import Parts

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

    `_left_alone` holds the requests without steering: their rows in V1, their slots in V2.
    """

    def __init__(self, vllm_config, state, is_pin_memory=False):
        check_model(vllm_config.model_config.model)
        self._left_alone = set()

    @classmethod
    def validate_params(cls, sampling_params):
        _is_steered(sampling_params)

    def is_argmax_invariant(self):
        return False

    def update_state(self, batch_update):
        """Model runner V1: requests left, joined or changed their row, in this order."""
        if batch_update is None:
            return
        self._left_alone -= set(batch_update.removed)
        for row, sampling_params, *_ in batch_update.added:
            self._enter(row, sampling_params)
        for first, second, direction in batch_update.moved:
            moved = {second} if first in self._left_alone else set()
            if direction.name == "SWAP" and second in self._left_alone:
                moved.add(first)
            self._left_alone = self._left_alone - {first, second} | moved

    def add_request(self, req_idx, sampling_params):
        """Model runner V2: a request takes a slot; whether it is steered."""
        return self._enter(req_idx, sampling_params)

    def _enter(self, place, sampling_params):
        steered = _is_steered(sampling_params)
        (self._left_alone.discard if steered else self._left_alone.add)(place)
        return steered

    def apply(self, logits, ctx=None):
        """`ctx` is V2's: the slot of each row."""
        bias = _bias(logits.shape[-1], logits.device).to(logits.dtype)
        if not self._left_alone:
            return logits.add_(bias)
        places = torch.arange(len(logits), device=logits.device) if ctx is None else ctx.expanded_idx_mapping
        alone = torch.tensor(sorted(self._left_alone), device=logits.device)
        return logits.add_(bias * ~torch.isin(places, alone)[:, None])'''

VLLM = Parts(
    title="Steer a model that vLLM serves: adds to each token's logit the delta of the token's cluster.",
    contents="the numbers to read are in DELTAS. Needs torch and vLLM",
    usage=_USAGE,
    engine=_ENGINE,
    file_name="processor_vllm.py",
    first_imports=("import importlib",),
)
