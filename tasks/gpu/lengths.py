"""Find the questions whose prompts are too long for the target, before it is asked anything.

A prompt and the longest answer must be shorter than the model's context.  A server that is already running reports its
context; that of a server to be started is in its arguments (`--context-length`), or else in the model's configuration.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from celery import shared_task

from tasks.common.validation import ContentKey, Count, RunId, parse_json
from tasks.gpu import host
from tasks.gpu.prompt import TOKENIZER_LOCK, load_tokenizer, render
from tasks.job import Job, JobTask, run_job
from tasks.records import Example, Target

CONTEXT_KEYS = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings")


def context_length(target: Target, model: str) -> int | None:
    """The context of the target in tokens; None when neither arguments nor configuration say it.

    `model` is the folder or the Hugging Face id with its configuration.
    """
    arguments = shlex.split(target.args)
    for position, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == "--context-length":
            return int(value if equals else arguments[position + 1])
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(model, trust_remote_code=False).get_text_config()
    lengths = [length for key in CONTEXT_KEYS if (length := getattr(config, key, None))]
    return int(lengths[0] * _rope_factor(config)) if lengths else None


def known_context(target: Target, model: str) -> int | None:
    """The context in tokens that a running server at a `url` reports, or else `context_length`."""
    reported = host.current().identity(target).get("context_length") if target.url else None
    return reported or context_length(target, model)


def _rope_factor(config: Any) -> float:
    """By how much a model's positions are stretched beyond its `max_position_embeddings`, as SGLang counts it."""
    rope = getattr(config, "rope_scaling", None) or getattr(config, "rope_parameters", None) or {}
    if "original_max_position_embeddings" in rope or rope.get("rope_type", rope.get("type")) == "llama3":
        return 1.0
    return float(rope.get("factor") or 1.0)


def find_too_long(
    examples: Sequence[Example], limit: int, length_of: Callable[[Example, str], int], *, truncate: bool
) -> dict[str, Any]:
    """{"limit", "lengths": {id: tokens} of the prompts longer than `limit`, "contexts": {id: text}}.

    `length_of(example, context)` is the length of a prompt with this context.  With `truncate`, "contexts" holds the
    longest beginning of each such example's context with which its prompt fits; none where it never fits.
    """
    lengths = {e.id: length for e in examples if (length := length_of(e, e.context)) > limit}
    contexts = {}
    for example in examples if truncate else ():
        if example.id in lengths and length_of(example, "") <= limit:
            contexts[example.id] = _longest_beginning(example, limit, length_of)
    return {"limit": limit, "lengths": lengths, "contexts": contexts}


def _longest_beginning(example: Example, limit: int, length_of: Callable[[Example, str], int]) -> str:
    low, high = 0, len(example.context)
    while low < high:
        middle = (low + high + 1) // 2
        if length_of(example, example.context[:middle]) <= limit:
            low = middle
        else:
            high = middle - 1
    return example.context[:low]


def check_lengths(job: Job) -> dict[str, Any]:
    """`find_too_long` for some examples; nothing is too long where the context is unknown.

    The job's arguments: `target` and `examples`, as `dataclasses.asdict` has them, and `truncate`.
    """
    target: Target = parse_json(Target, json.dumps(job.arguments["target"]))
    worker = host.current()
    worker.start_early(target)  # the first job of a run: the server loads its model meanwhile
    model = worker.model_folder(target)
    examples = [Example(**example) for example in job.arguments["examples"]]
    with TOKENIZER_LOCK:
        total, tokenizer = known_context(target, model), load_tokenizer(model)
        if total is None:
            return {"limit": None, "lengths": {}, "contexts": {}}

        def length_of(example: Example, text: str) -> int:
            return len(render(tokenizer, target.system_prompt, target.prompt_template, text, example.question))

        limit = total - target.sampling.max_new_tokens - 1
        return find_too_long(examples, limit, length_of, truncate=job.arguments["truncate"])


@shared_task(name="gpu.lengths", base=JobTask)
def lengths_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), check_lengths)
