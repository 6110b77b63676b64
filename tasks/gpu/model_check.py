"""The check of a run's model that goes into its processors: hashes of its files, and twenty of its steered answers.

The answers are greedy.  Those of a greedy run are the winner's own, which the store has; otherwise the target is asked.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from tasks.gpu import host
from tasks.gpu.answer import PromptBatch, answer_batch, batch_of, min_new_tokens
from tasks.gpu.host import TargetUnavailable
from tasks.gpu.processor_check import model_hashes
from tasks.gpu.processor_template import NO_CHECK, CheckedAnswer, ModelCheck
from tasks.gpu.target import TargetDown, TargetRefused
from tasks.models import Run
from tasks.plan import EXAMPLE_SETS, Candidate, Plan
from tasks.stage import Stage
from tasks.store.store import Store

log = logging.getLogger(__name__)

ANSWERS, TOKENS = 20, 32
LONGEST_TEXT = 400  # characters of an answer that are kept: more than so many tokens have
PLAN = "final"  # the plan of a run in which the winner's answers are


def make_check(store: Store, run_id: str, deltas: Sequence[float], system_prompt: str) -> ModelCheck:
    """The check of the run's model with these deltas (in canonical order) under this system prompt.

    It has no answers where the target cannot be asked.  Raises: LookupError when the run has no clustering.
    """
    run = store.run(run_id)
    model = host.current().model_folder(run.target)
    name = Path(model).name if Path(model).is_dir() else model
    config, tokenizer = _hashes(model_files(model))
    stops: list[int] = []
    answers: list[CheckedAnswer] = []
    try:
        stops, answers = _answers(store, run, tuple(deltas), system_prompt)
    except (TargetUnavailable, TargetDown, TargetRefused) as error:
        log.warning("the processor holds no answers to check a model by: %s", error)
    return ModelCheck(
        name=name, config=config, tokenizer=tokenizer, stops=stops, answers=answers,
        min_new_tokens=min_new_tokens(run.target.sampling, deltas),
    )  # fmt: skip


def no_check(store: Store, run_id: str, deltas: Sequence[float]) -> ModelCheck:
    """For a file that holds no check of the run's model: only what its requests need."""
    return {**NO_CHECK, "min_new_tokens": min_new_tokens(store.run(run_id).target.sampling, deltas)}


def _answers(
    store: Store, run: Run, deltas: tuple[float, ...], system_prompt: str
) -> tuple[list[int], list[CheckedAnswer]]:
    """The tokens that end an answer, and the answers."""
    sampling = dataclasses.replace(run.target.sampling, temperature=0.0)
    greedy = dataclasses.replace(run, samples=1, target=dataclasses.replace(run.target, sampling=sampling))
    sets = [which for which in EXAMPLE_SETS if store.examples(run.id).get(which)]
    asked = [Candidate(0, deltas, examples=which, system_prompt=system_prompt) for which in sets]
    stages = [Stage(store, greedy, Plan(PLAN, 0, (one,)), one, "pre", 0) for one in asked]
    batch = shortest([batch_of(stage) for stage in stages], ANSWERS)
    keys, _ = answer_batch(stages[0], batch, [sampling.seed] * len(batch.ids))
    found = store.shared(run.id, keys)
    return list(batch.stops), [
        CheckedAnswer(
            prompt=list(prompt),
            text=found[key]["text"][:LONGEST_TEXT],
            tokens=tokens_to_ask(found[key]["tokens"], found[key]["finish"]),
        )
        for prompt, key in zip(batch.prompts, keys, strict=True)
    ]


def shortest(batches: Sequence[PromptBatch], count: int) -> PromptBatch:
    """The shortest prompts of all batches, each once: they cost least to ask, and to keep."""
    by_hash = {one[2]: one for batch in batches for one in zip(batch.ids, batch.prompts, batch.hashes, strict=True)}
    chosen = sorted(by_hash.values(), key=lambda one: (len(one[1]), one[2]))[:count]
    ids, prompts, hashes = zip(*chosen, strict=True)
    return PromptBatch(ids, prompts, hashes, batches[0].stops)


def tokens_to_ask(tokens: int, finish: str) -> int:
    """How many tokens of an answer are compared: the first, and the end of the turn if it comes so soon."""
    return min(TOKENS, tokens + 1 if finish == "stop" else tokens)


def model_files(model: str) -> str:
    """The folder with the files of a model, which is a folder or a Hugging Face id in the cache; "" for neither."""
    if Path(model).is_dir():
        return model
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        config = try_to_load_from_cache(model, "config.json")
    except HFValidationError:
        return ""
    return str(Path(config).parent) if isinstance(config, str) else ""


@lru_cache(maxsize=4)
def _hashes(folder: str) -> tuple[str, str]:
    """Of the configuration and of the tokenizer."""
    found = model_hashes(folder) if folder else {"config": "", "tokenizer": ""}
    return found["config"], found["tokenizer"]
