"""Generate a processor with a length dial: each request chooses how short its answer is, without Whetstone.

It imports the standard library, numpy, torch and SGLang.  The plugin of `workers/steering` reads the same dial from a
file that this one writes for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from string import Template
from typing import TYPE_CHECKING, Any

from celery import shared_task

from tasks.dial import Dial
from tasks.gpu.cluster import unpack_labels
from tasks.gpu.processor import check_for
from tasks.gpu.processor_template import NO_CHECK, ModelCheck, Parts, check_clusters, render_file, with_min_tokens
from tasks.gpu.sglang_file import dialled
from tasks.gpu.target import PROCESSOR
from tasks.job import Job, JobTask, run_job
from tasks.message import ContentKey, Count, RunId
from tasks.validation import parse_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CONTENTS = """\
the numbers to read are in DIALS, MEAN_TOKENS, SHARE_RIGHT and DELTAS. Needs torch, numpy and
SGLang"""

_REQUEST = """\
, with the system prompt in SYSTEM_PROMPT and one of two parameters:

       {"text": "...", "sampling_params": {..., "custom_params": {"dial": 0.5}},
        "custom_logit_processor": "<the string>"}

   dial            from 0, the longest answers, to 1, the shortest; what is below 0 or above 1 counts as 0 or 1
   target_tokens   the mean length of the answers in tokens, as it was on the questions of the measurement;
                   what is out of the range of MEAN_TOKENS counts as its nearest end

   Without either, or with a value that is no number, the deltas in DEFAULT steer. With both, dial counts. No value is
   an error, because an error in a processor ends the server.

With the steering plugin of Whetstone the same dial costs the server nearly nothing. This file writes what it needs, and
prints what to send:

       python <this file> --plugin <the folder in WHETSTONE_LABELS>"""

_CONSTANTS = Template("""\
# The content hash of this dial.
FRONT = "$front"

# What a request names to be steered by Whetstone's plugin and not by this file.
PLUGIN = $plugin

# The system prompt with which the dial was measured.
SYSTEM_PROMPT = $system_prompt

# The places of the measured vectors on the dial, their mean tokens, and the share of their answers that were right.
DIALS = $dials
MEAN_TOKENS = $mean_tokens
SHARE_RIGHT = $share_right

# The least number of tokens of a steered answer, "min_new_tokens" of each request whose deltas are not all 0.
MIN_NEW_TOKENS = $min_new_tokens

# What is added for a request that chooses no length, by cluster.
DEFAULT = $default

# What is added to the logits of each cluster's tokens, at each of DIALS; between two of them it is interpolated.
# Positive is more of them, negative is fewer.""")

_FUNCTIONS = '''\
def write_for_plugin(folder):
    """Write the labels and the dial for Whetstone's steering plugin; returns what each request sends."""
    import numpy

    packed = zlib.decompress(base64.b64decode(LABELS))
    labels = numpy.frombuffer(packed, dtype=numpy.dtype(LABEL_TYPE).newbyteorder("<"))
    knots = [
        {"dial": dial, "mean_tokens": tokens, "deltas": [column[knot] for column in DELTAS.values()]}
        for knot, (dial, tokens) in enumerate(zip(DIALS, MEAN_TOKENS))
    ]
    folder.mkdir(parents=True, exist_ok=True)
    for path in (folder / f"{CLUSTERING}.npy", folder / f"{FRONT}.json"):
        unfinished = path.with_suffix(".part")
        with unfinished.open("wb") as out:
            if path.suffix == ".npy":
                numpy.save(out, labels.astype(LABEL_TYPE))
            else:
                out.write(json.dumps({"clustering": CLUSTERING, "default": DEFAULT, "knots": knots}).encode())
        unfinished.replace(path)
    sampling = {"min_new_tokens": MIN_NEW_TOKENS} if MIN_NEW_TOKENS else {}
    sampling["custom_params"] = {"front": FRONT, "dial": 0.5}
    return {"sampling_params": sampling, "custom_logit_processor": PLUGIN}

'''

_OPTIONS = """\
    elif len(arguments) == 2 and arguments[0] == "--plugin":
        print(json.dumps(write_for_plugin(pathlib.Path(arguments[1]))))
"""

_STEERING = '''\
def _bias(params, width, device):
    deltas = torch.tensor([_deltas_at(_chosen_dial(one)) for one in params], dtype=torch.float32)
    # One more column, zero, for the logits of a model that are wider than its vocabulary.
    deltas = torch.nn.functional.pad(deltas, (0, 1)).to(device, non_blocking=True)
    return deltas[:, _labels(width, device)]


def _chosen_dial(params):
    """The dial from 0 to 1 that a request's parameters choose; None for the default."""
    dial, tokens = (_number(params, name) for name in ("dial", "target_tokens"))
    if dial is not None:
        return float(min(max(dial, 0.0), 1.0))
    if tokens is not None:
        tokens = float(min(max(tokens, MEAN_TOKENS[-1]), MEAN_TOKENS[0]))
        return float(numpy.interp(-tokens, [-mean for mean in MEAN_TOKENS], DIALS))
    return None


def _number(params, name):
    value = params.get(name) if isinstance(params, dict) else None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
    return value if is_number else None


@functools.lru_cache(maxsize=4096)
def _deltas_at(dial):
    """The delta of each cluster."""
    if dial is None:
        return DEFAULT
    return [float(numpy.interp(dial, DIALS, DELTAS[str(cluster)])) for cluster in range(len(DELTAS))]
'''


def render_dial(
    dial: Dial,
    labels: NDArray[np.integer[Any]],
    descriptions: Sequence[Mapping[str, Any]],
    check: ModelCheck = NO_CHECK,
    min_new_tokens: int = 0,
) -> str:
    """The text of the file. Equal input gives equal text.

    `labels` [V]: the cluster of each token, of the dial's clustering.  `descriptions`: {"id", "description"} of
    clusters, for the comments; whatever their text, they stay comments.  `check` is of the model, with answers that the
    dial's default has steered.  `min_new_tokens` is the least number of tokens of a steered answer.
    Raises: ValueError when the dial and the labels do not belong together.
    """
    for deltas in (dial.default, *(knot.deltas for knot in dial.knots)):
        check_clusters({str(i): delta for i, delta in enumerate(deltas)}, labels, dial.clustering)
    columns = zip(*(knot.deltas for knot in dial.knots), strict=True)
    values = {str(i): repr(list(map(float, column))) for i, column in enumerate(columns)}
    parts = _parts(dial, min_new_tokens)
    parts = with_min_tokens(replace(parts, min_tokens_help=parts.min_tokens_help + _unsteered(dial)), min_new_tokens)
    return render_file(parts, dial.clustering, values, labels, descriptions, check)


def _unsteered(dial: Dial) -> str:
    """Which requests have no least number of tokens: those without steering, as they were measured without one."""
    places = [f"at dial {knot.dial:g}" for knot in dial.knots if not any(knot.deltas)]
    places += [] if any(dial.default) else ["without dial and target_tokens"]
    return f" Leave it out {' and '.join(places)}: those answers were measured without it." if places else ""


def _parts(dial: Dial, min_new_tokens: int) -> Parts:
    constants = _CONSTANTS.substitute(
        front=dial.front,
        plugin=ascii(PROCESSOR),
        system_prompt=ascii(dial.system_prompt),  # no character of it can end the line or reverse its direction
        dials=[float(knot.dial) for knot in dial.knots],
        mean_tokens=[float(knot.mean_tokens) for knot in dial.knots],
        share_right=[float(knot.share_right) for knot in dial.knots],
        min_new_tokens=min_new_tokens,
        default=list(map(float, dial.default)),
    )
    return dialled(_REQUEST, _CONTENTS, constants, _FUNCTIONS, _OPTIONS, _STEERING)


def dial_job(job: Job) -> dict[str, Any]:
    """Write the file to the store as the run's file of this name."""
    dial = parse_json(Dial, json.dumps(job.arguments["dial"]))
    labels = unpack_labels(job.store.clusterings.labels(dial.clustering))
    descriptions = job.store.clusterings.descriptions(job.run)
    min_new_tokens = job.store.run(job.run).target.sampling.steered_min_new_tokens
    text = render_dial(dial, labels, descriptions, check_for(job, dial.default), min_new_tokens)
    job.store.put_file(job.run, job.key, text.encode())
    return {"file": job.arguments["name"]}


@shared_task(name="gpu.dial", base=JobTask)
def dial_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), dial_job)
