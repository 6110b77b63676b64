"""What a run needs and says before its first generation: its questions, who reflects and judges, the longest prompt."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from orchestrator.farm.work import Scheduler
from orchestrator.report.format import announce, highest_cost, provider_at
from orchestrator.runs.jobs import LongPrompts, find_long_prompts
from orchestrator.settings import SettingsError
from orchestrator.settings.inputs import parse_selection
from orchestrator.settings.options import Settings
from orchestrator.settings.run import by_rules, endpoint_of
from tasks.common.text import estimate_tokens
from tasks.judging.graders import UserFunctionError, is_function, load_function, needs_model, title_of, unfit
from tasks.openai.reflect import prompt_estimate
from tasks.plan import EXAMPLE_SETS
from tasks.questions import SplitExample, in_split, parse_columns, read_questions
from tasks.records import Example
from tasks.store.store import Store
from tasks.tables import DatasetError

Examples = dict[str, list[Example]]
Watch = Callable[[str, tuple[int, int] | None], None]
LEAST_TO_ORDER = 24
"""Training questions.  Of fewer all are searched on, and the same ones order the front."""


def choose_examples(settings: Settings) -> Examples:
    """The training, validation and test set, fixed for the run; the latter two may be empty.

    Where there is a validation set and enough training questions, every second of these is in the set "ordering"
    instead, except in the specification's search (CONFIG_WHOLE=n), which sees all of them.
    """
    try:
        questions = _with_distinct_ids(read_questions(settings.data_path, parse_columns(settings.data_columns)))
    except DatasetError as error:
        raise SettingsError([f"CONFIG_DATA_PATH: {line}" for line in str(error).splitlines()]) from None
    chosen: dict[str, Sequence[SplitExample]] = {}
    problems: list[str] = []
    for which in EXAMPLE_SETS:
        selection = parse_selection(getattr(settings, which))
        try:
            rows = in_split(questions, selection.split) if selection.split else questions
            chosen[which] = [rows[index] for index in selection.of(len(rows))]
        except ValueError as error:
            problems.append(f"CONFIG_{which.upper()}: {error}")
    if problems := problems or _shared(chosen):
        raise SettingsError(problems)
    sets = {which: [question.example for question in rows] for which, rows in chosen.items()}
    training = sets["training"]
    if settings.whole and sets["validation"] and len(training) >= LEAST_TO_ORDER:
        sets["training"], sets["ordering"] = training[::2], training[1::2]
    return sets


def check_judge(settings: Settings, examples: Mapping[str, Sequence[Example]]) -> None:
    """Whether the chosen judge can judge: golds have what it needs, and an embedded farm has the function.

    The workers of an external farm have an environment of their own, which is not known here.
    """
    if problem := unfit(settings.judge, {row.id: row.gold for rows in examples.values() for row in rows}):
        raise SettingsError([f"CONFIG_JUDGE: {problem}"])
    if is_function(settings.judge) and settings.is_embedded:
        try:
            load_function(settings.judge)
        except UserFunctionError as error:
            raise SettingsError([f"CONFIG_JUDGE: {error}"]) from None


def reflector_prompt_estimate(store: Store, run_id: str, answers: int) -> str:
    """How long the prompts of the reflector may be, and whether their answers have to be cut."""
    descriptions = json.dumps(store.clusterings.descriptions(run_id), ensure_ascii=False)
    return prompt_estimate(store.run(run_id), answers, estimate_tokens(descriptions))


def _with_distinct_ids(questions: Sequence[SplitExample]) -> list[SplitExample]:
    """Splits may number their rows alike; such an id gets the name of its split before it, as in "test/7"."""
    times = Counter(question.example.id for question in questions)

    def distinct(question: SplitExample) -> SplitExample:
        example = question.example
        if times[example.id] == 1 or not question.split:
            return question
        named = dataclasses.replace(example, id=f"{question.split}/{example.id}")
        return dataclasses.replace(question, example=named)

    return [distinct(question) for question in questions]


def _shared(chosen: Mapping[str, Sequence[SplitExample]]) -> list[str]:
    """A line for each set that has questions of a set before it."""
    problems: list[str] = []
    earlier: dict[str, str] = {}
    for which, rows in chosen.items():
        shared = Counter(earlier[row.example.id] for row in rows if row.example.id in earlier)
        problems += [
            f"CONFIG_{which.upper()}: {count} rows are in the {other} set as well" for other, count in shared.items()
        ]
        earlier |= {row.example.id: which for row in rows if row.example.id not in earlier}
    return problems


def repeated_questions(examples: Mapping[str, Sequence[Example]]) -> list[str]:
    """A line for each set that has questions, with their contexts, which are in a set before it under other ids.

    Such a set no longer consists of unseen questions.  Data may hold a question twice, so it is no error.
    """
    lines: list[str] = []
    earlier: dict[tuple[str, str], str] = {}
    for which, rows in examples.items():
        texts = [(row.question.strip(), row.context.strip()) for row in rows]
        for other, count in Counter(earlier[text] for text in texts if text in earlier).items():
            questions, verb = ("question", "is") if count == 1 else ("questions", "are")
            lines.append(f"{count} {questions} of the {which} set {verb} in the {other} set as well, under another id")
        earlier |= {text: which for text in texts if text not in earlier}
    return lines


def evolve_announcement(settings: Settings) -> str:
    """Who reflects and judges, and what it may cost at most."""
    endpoint, rules, external = endpoint_of(settings), by_rules(settings), not settings.is_embedded
    return announce(
        provider_at(settings.reflector_model, endpoint, rules=rules, external=external),
        provider_at(settings.judge_model, endpoint, rules=rules, external=external)
        if needs_model(settings.judge)
        else title_of(settings.judge),
        highest_cost(endpoint, rules=rules),
    )


TooLong = Literal["error", "drop", "truncate"]


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
