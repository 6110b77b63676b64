"""Questions whose prompts are too long for the target: found on the gpu queue before anything is answered.

What is done with them says CONFIG_TOO_LONG: "error" ends the command, "drop" leaves the questions out of the run, and
"truncate" cuts the end of their contexts.  A run whose cap of tokens is raised checks them again with the new cap; one
that is resumed checks them with the cap and the system prompts that it has recorded, so it finds the same ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

from orchestrator.farm.jobs import Request, Scheduler
from orchestrator.settings import SettingsError
from tasks.job import JobSpec
from tasks.records import Example, Target
from tasks.store.keys import content_hash

TooLong = Literal["error", "drop", "truncate"]


@dataclasses.dataclass(frozen=True)
class LongPrompts:
    """The prompts that are longer than `limit` tokens: their lengths, and contexts with which they would fit, by id.

    cap: of an answer, in tokens, which has to fit as well.
    """

    limit: int | None
    cap: int
    lengths: Mapping[str, int]
    contexts: Mapping[str, str]

    def listed(self) -> str:
        """The questions with their lengths, such as "q7 (9,312 tokens)"."""
        return ", ".join(f"{name} ({length:,} tokens)" for name, length in self.lengths.items())

    def reason(self) -> str:
        fit = f"more than the {self.limit:,} tokens that fit the target beside an answer of {self.cap:,}"
        return f"prompts have {fit}: {self.listed()}"


def check_prompts(
    scheduler: Scheduler,
    mode: TooLong,
    examples: Mapping[str, list[Example]],
    system_prompts: Collection[str],
    watch: Callable[[str, tuple[int, int] | None], None],
    notify: Callable[[str], None],
) -> dict[str, list[Example]]:
    """The examples of an evolution after CONFIG_TOO_LONG.

    All questions must fit with the longest of the system prompts, so that every system is asked the same ones.
    """
    store, run_id = scheduler.dispatcher.store, scheduler.dispatcher.run_id
    longest = max(system_prompts, key=lambda text: (len(text), text))
    found = find_long_prompts(
        scheduler,
        dataclasses.replace(store.run(run_id).target, system_prompt=longest),
        [example for asked in examples.values() for example in asked],
        truncate=mode == "truncate",
        watch=lambda: watch("measuring the prompts", None),
    )
    return apply_too_long(mode, examples, found, notify)


def find_long_prompts(
    scheduler: Scheduler,
    target: Target,
    examples: Sequence[Example],
    *,
    truncate: bool,
    watch: Callable[[], None] = lambda: None,
) -> LongPrompts:
    """Measure the prompts of these examples."""
    arguments: dict[str, Any] = {
        "target": dataclasses.asdict(target),
        "examples": [dataclasses.asdict(example) for example in examples],
        "truncate": truncate,
    }
    key = "lengths:" + content_hash(scheduler.dispatcher.run_id, arguments)
    scheduler.submit(Request(key, JobSpec("gpu.lengths", "prompts", arguments)))
    [(_, result)] = scheduler.results(watch)
    return LongPrompts(result["limit"], target.sampling.max_new_tokens, result["lengths"], result["contexts"])


def apply_too_long(
    mode: TooLong, examples: Mapping[str, Sequence[Example]], found: LongPrompts, notify: Callable[[str], None]
) -> dict[str, list[Example]]:
    """The examples without those that are too long, or with shorter contexts; `notify` says which."""
    if not found.lengths:
        return {which: list(rows) for which, rows in examples.items()}
    if mode == "error":
        raise SettingsError([f"CONFIG_TOO_LONG: {found.reason()}", _advice()])
    if mode == "truncate":
        if hopeless := [name for name in found.lengths if name not in found.contexts]:
            names = ", ".join(hopeless)
            raise SettingsError([f"CONFIG_TOO_LONG: {names}: too long even without a context", _advice()])
        notify(f"contexts were cut, because their prompts are longer than {found.limit:,} tokens: {found.listed()}")
        return {which: [_shortened(row, found.contexts) for row in rows] for which, rows in examples.items()}
    kept = {which: [row for row in rows if row.id not in found.lengths] for which, rows in examples.items()}
    if not kept.get("training", True):
        raise SettingsError(
            [f"CONFIG_TOO_LONG: {found.reason()}", "CONFIG_TOO_LONG: dropping them leaves no question to learn from"]
        )
    notify(f"questions were dropped, because their prompts are longer than {found.limit:,} tokens: {found.listed()}")
    return kept


def _advice() -> str:
    return 'CONFIG_TOO_LONG: leave these questions out of the indices, or set it to "drop" or "truncate"'


def _shortened(example: Example, contexts: Mapping[str, str]) -> Example:
    return dataclasses.replace(example, context=contexts.get(example.id, example.context))
