"""The file that steers SGLang: how it is used, and the class that the server imports.

It is loaded by reference: a request carries the names of its module and class, never code, so the file must be
importable where SGLang's scheduler runs.
"""

from __future__ import annotations

from tasks.gpu.processor_template import TORCH, Parts

_USAGE = """\
1. Start the server with this file's folder on its module path:

       PYTHONPATH=<this folder> python -m sglang.launch_server --model-path <model> \\\\
           --host 127.0.0.1 --enable-custom-logit-processor --disable-overlap-schedule

   With that flag, any client that reaches the port can run code on the server: loopback or a private network only.

2. Ask this file for the string that names it (SGLang need not be installed where you ask):

       python <this file> --string

3. Send it with each request:

       {"text": "...", "sampling_params": {"custom_params": {}, ...}, "custom_logit_processor": "<the string>"}

   A file whose SENTENCE_ENDS is not empty needs to see the answers: hence --disable-overlap-schedule, and a request
   without "custom_params" never has the delta of cluster 0.

   A request may have all deltas multiplied by a strength from 0, no steering, to 1, which is the default:

       "sampling_params": {..., "custom_params": {"strength": 0.5}}

   A number below 0 counts as 0, one above 1 as 1, and what is no number as 1: an error would end the server.

The string names the file: rename the file, and ask again. Another file needs another name and a restart. A server with
another model than this file was made for ends with an error when it first loads the file."""

_IMPORTS = f"{TORCH}\nfrom sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor  # noqa: E402"

_ENGINE = '''\
class DeltaProcessor(CustomLogitProcessor):
    """Adds to each token's logit [rows, vocabulary] the delta of its cluster, times the strength of the row's request.

    SGLang makes a new instance for every batch, so what is worth keeping lives with the module.
    """

    def __call__(self, logits, custom_param_list=None):
        answers = [_answer(params) for params in custom_param_list or [None] * len(logits)]
        bias = _biases(answers, logits.shape[-1], logits.device)
        strengths = [_strength(params) for params in custom_param_list or ()]
        if any(strength != 1.0 for strength in strengths):
            bias = torch.tensor(strengths, device=logits.device)[:, None] * bias
        return logits + bias.to(logits.dtype)


def _answer(params):
    return params["__req__"].output_ids if isinstance(params, dict) and "__req__" in params else ()


def _strength(params):
    value = params.get("strength") if isinstance(params, dict) else None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
    return float(min(max(value, 0.0), 1.0)) if is_number else 1.0


def _check_server():
    try:
        from sglang.srt.runtime_context import get_server_args

        served = get_server_args()
    except (ImportError, AttributeError, RuntimeError, ValueError):
        return  # this is no server
    check_model(served.model_path)
    if SENTENCE_ENDS and not served.disable_overlap_schedule:
        raise RuntimeError(f"{__name__} needs a server with --disable-overlap-schedule")


_check_server()'''

_FUNCTIONS = '''\
def reference(module):
    """The value of custom_logit_processor that names the class in this module, and carries no code."""
    pickled = b"\\x80\\x04c" + module.encode() + b"\\nDeltaProcessor\\n."
    return json.dumps({"callable": pickled.hex()})
'''

_OPTIONS = """\
    elif arguments == ["--string"]:
        print(reference(module))
"""

SGLANG = Parts(
    title="Steer a model that SGLang serves: adds to each token's logit the delta of the token's cluster.",
    contents="the numbers to read are in DELTAS. Needs torch and SGLang",
    usage=_USAGE,
    engine=_ENGINE,
    file_name="processor_best.py",
    functions=_FUNCTIONS,
    options=_OPTIONS,
    imports=_IMPORTS,
)
