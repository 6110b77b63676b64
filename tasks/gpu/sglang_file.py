"""What is common to the files that steer SGLang: how they are used, and the class that the server imports.

They are loaded by reference: a request carries the names of their module and class, never code, so a file must be
importable where SGLang's scheduler runs.
"""

from __future__ import annotations

import dataclasses
from string import Template

from tasks.gpu.processor_template import TORCH, TORCH_LABELS, Parts

_USAGE = Template("""\
1. Start the server with this file's folder on its module path:

       PYTHONPATH=<this folder> python -m sglang.launch_server --model-path <model> \\\\
           --host 127.0.0.1 --enable-custom-logit-processor

   With that flag, any client that reaches the port can run code on the server: loopback or a private network only.

2. Ask this file for the string that names it (SGLang need not be installed where you ask):

       python <this file> --string

3. Send it with each request$request

The string names the file: rename the file, and ask again. Another file needs another name and a restart.""")

_IMPORTS = f"{TORCH}\nfrom sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor  # noqa: E402"

_ENGINE = Template('''\
class DeltaProcessor(CustomLogitProcessor):
    """Adds to each token's logit [rows, vocabulary] the delta of its cluster. $parameters

    SGLang makes a new instance for every batch, so what is worth keeping lives with the module.
    """

    def __call__(self, logits, custom_param_list=None):
        return logits + $bias.to(logits.dtype)''')

_FUNCTIONS = '''\
def reference(module):
    """The value of custom_logit_processor that names the class in this module, and carries no code."""
    pickled = b"\\x80\\x04c" + module.encode() + b"\\nDeltaProcessor\\n."
    return json.dumps({"callable": pickled.hex()})


'''

_STRING = """\
    elif arguments == ["--string"]:
        print(reference(module))
"""

_FIXED_CLASS = _ENGINE.substitute(
    parameters="A request's parameters change nothing.", bias="_bias(logits.shape[-1], logits.device)"
)

FIXED = Parts(
    title="Steer a model that SGLang serves: adds to each token's logit the delta of the token's cluster.",
    contents="the numbers to read are in DELTAS. Needs torch and SGLang",
    usage=_USAGE.substitute(
        request=""":

       {"text": "...", "sampling_params": {...}, "custom_logit_processor": "<the string>"}"""
    ),
    engine=_FIXED_CLASS,
    file_name="processor_best.py",
    asked='server_of(arguments[1], {"custom_logit_processor": reference(module)})',
    min_tokens_help='Each request needs "min_new_tokens": $count in its "sampling_params" ("min_tokens" in a body of '
    "OpenAI's protocol).",
    functions=_FUNCTIONS,
    options=_STRING,
    imports=_IMPORTS,
)
"""The parts of a file with fixed deltas."""


def dialled(request: str, contents: str, constants: str, functions: str, options: str, steering: str) -> Parts:
    """The parts of a file in which each request chooses its deltas.

    `steering` defines `_bias(params, width, device)` [rows, width]; `params` has the custom_params of each row's
    request, or None.
    """
    bias = "_bias(custom_param_list or [None] * len(logits), logits.shape[-1], logits.device)"
    return dataclasses.replace(
        FIXED,
        title="Steer a model that SGLang serves, with a length dial: each request chooses how short its answer is.",
        contents=contents,
        usage=_USAGE.substitute(request=request),
        engine=_ENGINE.substitute(parameters="The request chooses the deltas.", bias=bias),
        file_name="processor_dial.py",
        steering=TORCH_LABELS + steering,
        constants=constants,
        functions=FIXED.functions + functions,
        options=FIXED.options + options,
        imports=f"import numpy  # noqa: E402\n{_IMPORTS}",
    )
