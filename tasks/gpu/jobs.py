"""What drivers ask of a target beside an individual's answers: who it is, which prompts are too long, and samples."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any

from celery import Task, shared_task

from tasks.collect.collection import collection_of
from tasks.gpu.host import TargetHost, ask_target, host_of
from tasks.gpu.processor import check_of
from tasks.gpu.prompt import TOKENIZER_LOCK, answer_ends, load_tokenizer, render, template_notes
from tasks.gpu.target import Generated, GenerateRequest
from tasks.records import Target
from tasks.task import Job, JobTask, run_job

CONTEXT_KEYS = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings")


def identify_server(target: Target, host: TargetHost) -> dict[str, Any]:
    """{"server": the identity of the target's server, which keys of answers cover, "model": its `ModelCheck`, and
    "template": notes on its chat template}.
    """
    model, server = host.model_folder(target), dict(host.identity(target))
    with TOKENIZER_LOCK:
        notes = template_notes(load_tokenizer(model))
    return {"server": server, "model": dataclasses.asdict(check_of(model)), "template": notes}


def context_length(target: Target, model: str) -> int | None:
    """The context of a server to be started, in tokens; None when neither arguments nor configuration say it."""
    arguments = shlex.split(target.args)
    for position, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == "--context-length":
            return int(value if equals else arguments[position + 1])
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(model, trust_remote_code=False).get_text_config()
    lengths = [length for key in CONTEXT_KEYS if (length := getattr(config, key, None))]
    return int(lengths[0] * _rope_factor(config)) if lengths else None


def known_context(target: Target, model: str, host: TargetHost) -> int | None:
    """The context in tokens that a running server at a `url` reports, or else `context_length`."""
    reported = host.identity(target).get("context_length") if target.url else None
    return reported or context_length(target, model)


def _rope_factor(config: Any) -> float:
    """By how much a model's positions are stretched beyond its `max_position_embeddings`, as SGLang counts it."""
    rope = getattr(config, "rope_scaling", None) or getattr(config, "rope_parameters", None) or {}
    if "original_max_position_embeddings" in rope or rope.get("rope_type", rope.get("type")) == "llama3":
        return 1.0
    return float(rope.get("factor") or 1.0)


def check_lengths(job: Job, host: TargetHost) -> dict[str, Any]:
    """{"limit", "lengths": {id: tokens} of the prompts that are longer}; the limit is None where it is not known.

    A prompt and the longest answer must be shorter than the model's context.
    """
    target = Target.of(job.arguments["target"])
    host.start_early(target)  # the first job of a run: the server loads its model meanwhile
    model = host.model_folder(target)
    with TOKENIZER_LOCK:
        total, tokenizer = known_context(target, model, host), load_tokenizer(model)
        if total is None:
            return {"limit": None, "lengths": {}}
        lengths = {
            row["id"]: len(
                render(tokenizer, target.system_prompt, target.prompt_template, row["context"], row["question"])
            )
            for row in job.arguments["examples"]
        }
    limit = total - target.sampling.max_new_tokens - 1
    too_long = {name: length for name, length in lengths.items() if length > limit}
    return {"limit": limit, "lengths": too_long}


def draw_sample(job: Job, host: TargetHost) -> dict[str, Any]:
    """One verbose answer of a collection: the target's, without steering, with sample j's seed."""
    collection, example = collection_of(job)
    target, sampling = collection.target, collection.sampling(job.arguments["sample"])
    with TOKENIZER_LOCK:
        tokenizer = load_tokenizer(host.model_folder(target))
        form = tokenizer, target.system_prompt, target.prompt_template
        prompt = render(*form, example.context, example.question)
        stops = tuple(sorted(answer_ends(tokenizer)))
    request = GenerateRequest.of(tuple(prompt), sampling, stops)
    answers: dict[int, Generated] = {}
    ask_target(host, target, {0: request}, answers.__setitem__, collection.target_retries, identity=collection.server)
    return {"text": answers[0].text, "tokens": answers[0].completion_tokens, "finish": answers[0].finish}


def describe_tokenizer(job: Job, host: TargetHost) -> dict[str, Any]:
    """The target's tokenizer for workers without transformers (tasks/collect/tokens.py)."""
    model = host.model_folder(collection_of(job)[0].target)
    with TOKENIZER_LOCK:
        tokenizer = load_tokenizer(model)
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise ValueError(f"the tokenizer of {model} is not built on the tokenizers library")
        highest = max(tokenizer.get_vocab().values())
        marked = {int(i) for i, token in tokenizer.added_tokens_decoder.items() if token.special}
        return {
            "backend": backend.to_str(),
            "texts": [str(tokenizer.decode([i])) for i in range(highest + 1)],
            "special": sorted(marked.union(map(int, tokenizer.all_special_ids))),
            "ends": sorted(answer_ends(tokenizer)),
        }


@shared_task(name="gpu.identity", base=JobTask, card="serves", bind=True)
def identity_task(task: Task[Any, Any], run: str, key: str, attempt: int) -> None:
    run_job((run, key, attempt), lambda job: identify_server(Target.of(job.arguments["target"]), host_of(task)))


@shared_task(name="gpu.lengths", base=JobTask, bind=True)
def lengths_task(task: Task[Any, Any], run: str, key: str, attempt: int) -> None:
    run_job((run, key, attempt), lambda job: check_lengths(job, host_of(task)))


@shared_task(name="gpu.sample", base=JobTask, card="serves", bind=True)
def sample_task(task: Task[Any, Any], run: str, key: str, attempt: int) -> None:
    run_job(
        (run, key, attempt),
        lambda job: draw_sample(job, host_of(task)),
        lambda answer: {"target": answer["tokens"]},
    )


@shared_task(name="gpu.tokenizer", base=JobTask, bind=True)
def tokenizer_task(task: Task[Any, Any], run: str, key: str, attempt: int) -> None:
    run_job((run, key, attempt), lambda job: describe_tokenizer(job, host_of(task)))
