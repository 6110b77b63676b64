"""Verbose answers of the target without steering, one request for each task, and a description of its tokenizer."""

from __future__ import annotations

import uuid
from typing import Any

from celery import shared_task

from tasks.collect.collection import SampleJob, sample_job
from tasks.common.validation import ContentKey, Count, RunId
from tasks.gpu import host
from tasks.gpu.ask import ask_target
from tasks.gpu.prompt import TOKENIZER_LOCK, answer_ends, load_tokenizer, render
from tasks.gpu.target import Generated, GenerateRequest
from tasks.job import JobTask, run_job


def request_for(job: SampleJob, tokenizer: Any) -> GenerateRequest:
    """The example through the model's chat template, with sample j's seed and the end of the turn as its stop."""
    target, sampling = job.collection.target, job.collection.sampling(job.sample)
    prompt = render(tokenizer, target.system_prompt, target.prompt_template, job.example.context, job.example.question)
    return GenerateRequest(
        input_ids=tuple(prompt),
        max_new_tokens=sampling.max_new_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=sampling.seed,
        stop_token_ids=tuple(sorted(answer_ends(tokenizer))),
        rid=uuid.uuid4().hex,
    )


def draw_sample(job: SampleJob) -> dict[str, Any]:
    """One answer."""
    collection, target = job.collection, job.collection.target
    with TOKENIZER_LOCK:
        request = request_for(job, load_tokenizer(host.current().model_folder(target)))
    answers: list[Generated] = []
    ask_target(
        target,
        {0: request},
        lambda _, answer: answers.append(answer),
        collection.target_retries,
        identity=collection.server,
    )
    [answer] = answers
    return {"text": answer.text, "tokens": answer.completion_tokens, "finish": answer.finish}


def describe_tokenizer(job: SampleJob) -> dict[str, Any]:
    """The target's tokenizer for workers without transformers (tasks/cpu/tokenize.py, tasks/collect/selection.py)."""
    model = host.current().model_folder(job.collection.target)
    with TOKENIZER_LOCK:
        return _description(model, load_tokenizer(model))


def _description(model: str, tokenizer: Any) -> dict[str, Any]:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ValueError(f"the tokenizer of {model} is not built on the tokenizers library")
    highest = max(tokenizer.get_vocab().values())
    marked = {int(i) for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    return {
        "backend": backend.to_str(),
        "texts": [str(tokenizer.decode([i])) for i in range(highest + 1)],
        "special": sorted(marked.union(map(int, tokenizer.all_special_ids))),
        "eos": tokenizer.eos_token_id,
    }


@shared_task(name="gpu.sample", base=JobTask, card="serves")
def sample_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), lambda job: draw_sample(sample_job(job)), lambda answer: {"target": answer["tokens"]})


@shared_task(name="gpu.tokenizer", base=JobTask)
def tokenizer_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), lambda job: describe_tokenizer(sample_job(job)))
