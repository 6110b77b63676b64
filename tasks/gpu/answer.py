"""The answer stage: the target answers an individual's questions, and each answer is kept as it arrives.

Of an answer that deltas may have cut, and whose text does not tell, the model without deltas is asked whether it would
end there too; it is kept when that is known.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from celery import Task, shared_task

from tasks.gpu.cluster import write_labels
from tasks.gpu.host import TargetHost, ask_target, host_of
from tasks.gpu.model_files import reference
from tasks.gpu.processor import generate
from tasks.gpu.prompt import TOKENIZER_LOCK, answer_ends, load_tokenizer, render
from tasks.gpu.target import Generated, GenerateRequest
from tasks.judging.whole import is_loop, is_whole
from tasks.plan import Phase
from tasks.records import PROCESSOR_FILE, Answer, Sampling
from tasks.stage import Stage, StageTask, run_stage
from tasks.store.client import hold_lock
from tasks.store.keys import content_hash
from tasks.task import raise_if_cancelled

PROMPT_BATCHES = 32  # kept: a run compares a dozen system prompts on two or three sets of questions
GENERATED = reference(PROCESSOR_FILE.removesuffix(".py"))  # the class of the file that the server has loaded
EXCLUSIVE_LOCK = threading.Lock()  # held by an individual that has a server of its own


@dataclasses.dataclass(frozen=True)
class PromptBatch:
    """The prompts of a set of examples, as token ids."""

    ids: tuple[str, ...]
    prompts: tuple[tuple[int, ...], ...]
    hashes: tuple[str, ...]  # of the prompts, computed once: a prompt has a thousand token ids
    stops: tuple[int, ...]  # the tokens that end an answer


@functools.lru_cache(maxsize=PROMPT_BATCHES)
def prompt_batch(
    model_folder: str, system: str, template: str, examples: tuple[tuple[str, str, str], ...]
) -> PromptBatch:
    """Render each (id, context, question) through the model's chat template."""
    tokenizer = load_tokenizer(model_folder)
    prompts = tuple(tuple(render(tokenizer, system, template, text, question)) for _, text, question in examples)
    hashes = tuple(content_hash(list(prompt)) for prompt in prompts)
    return PromptBatch(tuple(e[0] for e in examples), prompts, hashes, tuple(sorted(answer_ends(tokenizer))))


def answer_keys(
    sampling: Sampling,
    whole: bool,
    identity: Mapping[str, Any],
    clustering: str,
    deltas: Sequence[float],
    batch: PromptBatch,
    salt: str,
) -> list[str]:
    """The content key of each answer: all that determines it, and a salt where the cache is off."""
    steering = [clustering, list(deltas)] if any(deltas) else None  # zeros change no logit
    # Without a delta of the end of turn none is held back.
    ends = sampling.end_after_sentence and any(deltas[:1])
    asked = dataclasses.asdict(dataclasses.replace(sampling, end_after_sentence=ends))
    fixed = content_hash(identity, steering, asked, whole, list(batch.stops), salt)
    return ["answer:" + content_hash(fixed, prompt) for prompt in batch.hashes]


def requests_for(
    sampling: Sampling,
    clustering: str,
    deltas: Sequence[float],
    batch: PromptBatch,
    positions: Iterable[int],
    processor: bool = False,
) -> dict[int, GenerateRequest]:
    """A request for each position; with `processor` the file that the server loaded steers."""
    steering: dict[str, Any] = {"deltas": tuple(deltas), "clustering": clustering} if deltas else {}
    if processor:
        steering = {"processor": GENERATED}
    steering["end_after_sentence"] = sampling.end_after_sentence
    return {j: GenerateRequest.of(batch.prompts[j], sampling, batch.stops, **steering) for j in positions}


def answer_stage(stage: Stage, host: TargetHost) -> dict[str, Any]:
    """{"answers": a record of each question's, "generated": how many are new}; texts are in the store under the keys.

    "loop" is an answer that would have gone on repeating itself beyond the cap.
    """
    store, run, deltas, batch = stage.store, stage.run, stage.deltas(), batch_of(stage, host)
    clustering = _write_labels(stage, host) if deltas else ""
    identity = host.identity(run.target)
    store.add_server(run.id, identity)
    keys = answer_keys(stage.sampling, run.whole, identity, clustering, deltas, batch, stage.cache_salt)

    def missing() -> list[int]:
        found = store.shared(run.id, keys)
        return [keys.index(key) for key in dict.fromkeys(keys) if key not in found]

    generated = 0
    if missing():
        lock = hold_lock(store.redis, f"answer:{content_hash(sorted(keys))}")
        with lock, _processor_file(stage, host) as processor:
            positions = missing()  # another task may have answered them
            generated = len(positions)
            requests = requests_for(stage.sampling, clustering, deltas, batch, positions, bool(processor))
            ask = functools.partial(ask_target, host, run.target, processor=processor, identity=identity)
            _answer(stage, batch, keys, requests, ask)
    answers = store.shared(run.id, keys)
    return {"answers": [_record(key, answers[key]) for key in keys], "generated": generated}


def _record(key: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    loop = answer["finish"] == "length" and is_loop(answer["ids"])
    return {"key": key, **{name: answer[name] for name in ("tokens", "finish", "whole")}, "loop": loop}


def _answer(
    stage: Stage,
    batch: PromptBatch,
    keys: Sequence[str],
    requests: Mapping[int, GenerateRequest],
    ask: Callable[[Mapping[int, GenerateRequest], Callable[[int, Generated], None]], None],
) -> None:
    """Have the requests answered, and each answer stored when it is known whether it is whole."""
    is_steered, undecided = any(stage.deltas()), dict[int, Generated]()

    def keep(position: int, generated: Generated) -> None:
        whole = is_whole(generated.text, generated.finish, is_steered) if stage.run.whole else True
        whole = generated.ends_unsteered if whole is None else whole
        if whole is None:
            undecided[position] = generated
        else:
            put(position, generated, whole)

    def put(position: int, generated: Generated, whole: bool) -> None:
        tokens, ids = generated.completion_tokens, generated.output_ids
        answer = Answer(batch.ids[position], generated.text, tokens, generated.finish, ids, whole)
        stage.store.put_shared(stage.run.id, keys[position], dataclasses.asdict(answer), {"target": tokens})
        raise_if_cancelled(stage.store, stage.run.id)

    ask(requests, keep)
    ends = {position: end_request(requests[position], generated) for position, generated in undecided.items()}
    ask(ends, lambda position, end: put(position, undecided[position], end.finish == "stop"))


def end_request(request: GenerateRequest, answer: Generated) -> GenerateRequest:
    """Asks for the greedy next token after an answer's own tokens, without deltas: "stop" if it ends the answer."""
    prompt = request.input_ids + answer.output_ids
    return GenerateRequest(prompt, 1, 0.0, request.top_p, request.seed, request.stop_token_ids)


def _write_labels(stage: Stage, host: TargetHost) -> str:
    """The stage's clustering, whose labels are then where the server loads them."""
    clustering, kept, folder = stage.clustering, stage.store.clusterings, host.labels_folder()
    write_labels(kept.labels(clustering), clustering, folder)
    if stage.sampling.end_after_sentence:
        write_labels(kept.ends(clustering), f"{clustering}.ends", folder)
    return clustering


def batch_of(stage: Stage, host: TargetHost) -> PromptBatch:
    """The rendered prompts of a stage's questions."""
    target = stage.run.target
    questions = tuple((e.id, e.context, e.question) for e in stage.examples())
    with TOKENIZER_LOCK:
        return prompt_batch(host.model_folder(target), stage.system_prompt, target.prompt_template, questions)


@contextmanager
def _processor_file(stage: Stage, host: TargetHost) -> Iterator[str]:
    """The text of the file that the server must load for this individual, or "" where the requests' deltas steer.

    With the lifecycle "restart" the first request starts the server with that file; one individual at a time.
    """
    if stage.run.target.lifecycle == "resident":
        yield ""
        return
    with EXCLUSIVE_LOCK:
        host.stop()
        yield generate(stage.store, stage.run.id, stage.deltas(), clustering=stage.clustering) if stage.deltas() else ""


@shared_task(name="gpu.answer", base=StageTask, card="serves", bind=True)
def answer_task(task: Task[Any, Any], run: str, plan: str, index: int, phase: Phase, attempt: int) -> None:
    run_stage("answer", (run, plan, index, phase, attempt), lambda stage: answer_stage(stage, host_of(task)))
