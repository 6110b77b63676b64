"""The questions of a run: chosen, fixed for all its sessions, and short enough for the target."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence

from orchestrator.farm.work import Scheduler
from orchestrator.report.format import format_points, provider_at
from orchestrator.report.statistics import least_questions
from orchestrator.runs.folder import OutputFolder, find_json
from orchestrator.runs.jobs import LongPrompts, find_long_prompts
from orchestrator.settings import SettingsError
from orchestrator.settings.inputs import parse_selection, shipped_file
from orchestrator.settings.options import Settings
from orchestrator.settings.run import by_rules, endpoint_of
from tasks.judging.graders import UserFunction, UserFunctionError, is_function, needs_model, title_of, unfit
from tasks.plan import EXAMPLE_SETS
from tasks.questions import SplitExample, in_split, parse_columns, read_questions
from tasks.records import Example
from tasks.store.keys import content_hash
from tasks.tables import DatasetError

Examples = dict[str, list[Example]]
QuestionHashes = dict[str, dict[str, str]]
"""questions.json.  By set: the content hash of each question, with its context and right answer, by id, in order."""
QUESTIONS = "questions.json"
LEAST_TO_ORDER = 24
"""Training questions.  Of fewer all are searched on, and the same ones order the front."""
MOST_LISTED = 10
SHORT = 16  # digits of a hash


def choose_examples(settings: Settings) -> Examples:
    """The training, validation and test set, fixed for the run; the latter two may be empty.

    Where there is a validation set and enough training questions, every second of these is in the set "ordering"
    instead, except in the specification's search (CONFIG_WHOLE=n), which sees all of them.
    """
    try:
        questions = _with_distinct_ids(read_questions(settings.data_path, parse_columns(settings.data_columns)))
    except DatasetError as error:
        raise SettingsError([f"CONFIG_DATA_PATH: {line}" for line in str(error).splitlines()]) from None
    sets, problems = Examples(), list[str]()
    for which in EXAMPLE_SETS:
        selection = parse_selection(getattr(settings, which))
        try:
            rows = in_split(questions, selection.split) if selection.split else questions
            sets[which] = [rows[index].example for index in selection.of(len(rows))]
        except ValueError as error:
            problems.append(f"CONFIG_{which.upper()}: {error}")
    ids = {which: [row.id for row in rows] for which, rows in sets.items()}
    if problems := problems or [
        f"CONFIG_{which.upper()}: {count} rows are in the {other} set as well" for which, other, count in _shared(ids)
    ]:
        raise SettingsError(problems)
    training = sets["training"]
    if settings.whole and sets["validation"] and len(training) >= LEAST_TO_ORDER:
        sets["training"], sets["ordering"] = training[::2], training[1::2]
    return sets


def everyday_questions() -> list[Example]:
    """Questions of another kind than those of the run, without golds: what a winner does to other traffic."""
    lines = shipped_file("everyday.txt").read_text("utf-8").splitlines()
    return [Example(f"everyday {number}", "", line, "") for number, line in enumerate(lines, start=1)]


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


def _shared(sets: Mapping[str, Sequence[Hashable]]) -> Iterator[tuple[str, str, int]]:
    """A set, one before it, and how many members of the set are there too."""
    earlier = dict[Hashable, str]()
    for which, members in sets.items():
        for other, count in Counter(earlier[one] for one in members if one in earlier).items():
            yield which, other, count
        for one in members:
            earlier.setdefault(one, which)


NO_GOLDS = frozenset(("nan", "null", "<na>", "#n/a", "n/a", "nat", "none"))
"""How tables write that there is no value."""


def doubtful_data(examples: Mapping[str, Sequence[Example]], margin: float) -> list[str]:
    """What is no error, and yet to be known before anything is measured.

    A line for all golds that look like a missing value; one for each set that has questions, with their contexts,
    which are in a set before it under other ids: such a set no longer consists of unseen questions; and one for a
    validation set with which not even a system that changes no verdict passes.
    """
    empty = [row.id for rows in examples.values() for row in rows if row.gold.strip().lower() in NO_GOLDS]
    lines = [f"golds that look like a missing value, such as 'nan': {_listed(empty)}"] if empty else []
    texts = {which: [(row.question.strip(), row.context.strip()) for row in rows] for which, rows in examples.items()}
    for which, other, count in _shared(texts):
        shared = {*texts[other]}
        ids = [row.id for row, text in zip(examples[which], texts[which], strict=True) if text in shared]
        share = f"{count} of {len(texts[which])} questions ({count / len(texts[which]):.0%}) of the {which} set"
        lines.append(f"{share} are in the {other} set as well, under another id: {_listed(ids)}")
    asked, least = len(examples.get("validation", ())), least_questions(margin)
    if 0 < asked < least:
        loss = f"cannot exclude a loss of {format_points(margin)}, even where no verdict changes"
        lines.append(f"{asked} validation questions {loss}: at least {least} are needed")
    return lines


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(names[:MOST_LISTED]) + more


def judge_of(settings: Settings) -> str:
    """Who judges, in words."""
    rules, external = by_rules(settings), not settings.is_embedded
    model = provider_at(settings.judge_model, endpoint_of(settings), rules=rules, external=external)
    return model if needs_model(settings.judge) else title_of(settings.judge)


def check_judge(settings: Settings, examples: Mapping[str, Sequence[Example]]) -> None:
    """Whether golds have what the judge needs, and an embedded farm has the function."""
    if problem := unfit(settings.judge, {row.id: row.gold for rows in examples.values() for row in rows}):
        raise SettingsError([f"CONFIG_JUDGE: {problem}"])
    if is_function(settings.judge) and settings.is_embedded:
        try:
            UserFunction(settings.judge)
        except UserFunctionError as error:
            raise SettingsError([f"CONFIG_JUDGE: {error}"]) from None


def _hashes(examples: Mapping[str, Sequence[Example]]) -> QuestionHashes:
    return {
        which: {row.id: content_hash(dataclasses.asdict(row))[:SHORT] for row in rows}
        for which, rows in examples.items()
    }


def keep_questions(output: OutputFolder, examples: Mapping[str, Sequence[Example]]) -> None:
    if not (output.path / QUESTIONS).exists():
        output.write_json(QUESTIONS, _hashes(examples))


def check_same_questions(output: OutputFolder, examples: Mapping[str, Sequence[Example]]) -> None:
    """Whether the questions are those that the run in the folder began with: scores of others are not compared."""
    before = find_json(output.path / QUESTIONS, QuestionHashes)
    if before is None:
        return
    problems = [
        f"CONFIG_DATA_PATH: {_changed(which, before.get(which, {}), now)} in {output.path}; "
        "`orchestrator evolve` starts another run with another --output, or --fresh"
        for which, now in _hashes(examples).items()
        if list(before.get(which, {}).items()) != list(now.items())
    ]
    if problems:
        raise SettingsError(problems)


def _changed(which: str, before: Mapping[str, str], now: Mapping[str, str]) -> str:
    names = [name for name in {**now, **before} if now.get(name) != before.get(name)] or ["the order"]
    here, there = (content_hash(list(hashes.items()))[:SHORT] for hashes in (now, before))
    return f"the {which} set has changed ({_listed(names)}): its hash is {here} here, but {there} in the run"


def fitting_questions(
    scheduler: Scheduler,
    mode: str,
    examples: Mapping[str, list[Example]],
    system_prompts: Collection[str],
    watch: Callable[[str, tuple[int, int] | None], None],
    notify: Callable[[str], None],
) -> Examples:
    """The questions that fit with the longest of the system prompts, so that every system is asked the same ones."""
    store, run_id = scheduler.dispatcher.store, scheduler.dispatcher.run_id
    longest = max(system_prompts, key=lambda text: (len(text), text))
    found = find_long_prompts(
        scheduler,
        dataclasses.replace(store.run(run_id).target, system_prompt=longest),
        [example for asked in examples.values() for example in asked],
        lambda: watch("measuring the prompts", None),
    )
    return apply_too_long(mode, examples, found, notify)


def apply_too_long(
    mode: str, examples: Mapping[str, Sequence[Example]], found: LongPrompts, notify: Callable[[str], None]
) -> Examples:
    """The examples without those that are too long; `notify` says which."""
    if not found.lengths:
        return {which: list(rows) for which, rows in examples.items()}
    if mode == "error":
        advice = 'CONFIG_TOO_LONG: leave these questions out of the indices, or set it to "drop"'
        raise SettingsError([f"CONFIG_TOO_LONG: {found.reason()}", advice])
    kept = {which: [row for row in rows if row.id not in found.lengths] for which, rows in examples.items()}
    if not kept.get("training", True):
        raise SettingsError(
            [f"CONFIG_TOO_LONG: {found.reason()}", "CONFIG_TOO_LONG: dropping them leaves no question to learn from"]
        )
    notify(f"questions were dropped, because their prompts are longer than {found.limit:,} tokens: {found.listed()}")
    return kept
