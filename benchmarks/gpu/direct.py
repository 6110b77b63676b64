"""The requests of a finished run, sent directly to the server from a few processes, without farm and store."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tasks.context import content_hash
from tasks.gpu.answer import prompt_batch, requests_for
from tasks.gpu.target import Generated, GenerateRequest, TargetClient
from tasks.plan import Plan, stage_refs
from tasks.stage import Stage
from tasks.store.keys import JOBS, plan_key
from tasks.store.store import Store

PROCESSES = 4
START_S = 120.0


@dataclass(frozen=True)
class DirectResult:
    """`seconds` from the first request to the last answer; `tokens` generated, without stop tokens.

    At most `in_flight` requests were sent at once.  `steady` is the rate in tokens a second while all of them were:
    from the answer of that number on, until no request was left to send; None for too few requests.
    """

    in_flight: int
    seconds: float
    tokens: int
    steady: float | None


def requests_of(store: Store, model: str) -> list[GenerateRequest]:
    """Each request whose answer a run has, once, in the order of its plans; none before the clustering is there."""
    [run_id] = store.run_ids()
    run, clustering = store.run(run_id), store.metadata(run_id, "clustering")
    if clustering is None:
        return []
    examples = store.examples(run_id)
    found: dict[str, GenerateRequest] = {}
    for plan in plans_of(store, run_id):
        answered = store.stages(run_id, plan.name)
        for candidate in plan.candidates:
            texts = tuple((e.id, e.context, e.question) for e in examples[candidate.examples])
            for step in stage_refs(candidate):
                stage = Stage(store, run, plan, candidate, step.phase, 0)
                if step.stage != "answer" or answered.get(step.field, {"skipped": True}).get("skipped"):
                    continue
                deltas = stage.deltas()
                batch = prompt_batch(model, stage.system_prompt, run.target.prompt_template, texts)
                rids = dict.fromkeys(range(len(batch.ids)), "")
                for request in requests_for(run.target, clustering, deltas, batch, rids):
                    found.setdefault(content_hash(list(request.input_ids), list(deltas)), request)
    return list(found.values())


def plans_of(store: Store, run_id: str) -> list[Plan]:
    prefix = plan_key(run_id, "")
    names = [key.decode().removeprefix(prefix) for key in store.redis.scan_iter(match=prefix + "*", count=1000)]
    return sorted(
        (store.plan(run_id, name) for name in names if name != JOBS),
        key=lambda plan: (plan.generation, plan.name != f"g{plan.generation}_pop"),
    )


def drive(url: str, api_key: str | None, requests: Sequence[GenerateRequest], in_flight: int) -> DirectResult:
    """Send all requests, each process an equal share, `in_flight` at once in all processes together."""
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(PROCESSES + 1), context.SimpleQueue()
    shares = [list(requests[n::PROCESSES]) for n in range(PROCESSES)]
    senders = [
        context.Process(target=_send, args=(url, api_key, share, in_flight // PROCESSES, ready, results), daemon=True)
        for share in shares
    ]
    for sender in senders:
        sender.start()
    ready.wait(START_S)
    started = time.perf_counter()
    answers = sorted(answer for _ in senders for answer in results.get())
    seconds = time.perf_counter() - started
    for sender in senders:
        sender.join()
    return DirectResult(in_flight, seconds, sum(tokens for _, tokens in answers), steady_rate(answers, in_flight))


def steady_rate(answers: Sequence[tuple[float, int]], in_flight: int) -> float | None:
    """Tokens a second of answers (time of its end, tokens), in their order, without the first and last `in_flight`."""
    full = answers[in_flight - 1 : len(answers) - in_flight]
    if len(full) <= in_flight:
        return None
    return sum(tokens for _, tokens in full[1:]) / (full[-1][0] - full[0][0])


def _send(
    url: str, api_key: str | None, requests: list[GenerateRequest], in_flight: int, ready: Any, results: Any
) -> None:
    answers: list[tuple[float, int]] = []

    def count(index: int, generated: Generated) -> None:
        answers.append((time.perf_counter(), generated.completion_tokens))

    client = TargetClient(url, timeout_s=600, concurrency=in_flight, api_key=api_key)
    ready.wait(START_S)
    client.generate_many(requests, count)
    results.put(answers)
