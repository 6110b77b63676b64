"""What a run needs and says before its first generation: its questions, who reflects and judges, the longest prompt."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from orchestrator.report.announcement import announce, highest_cost, provider_at
from orchestrator.settings import Settings, SettingsError, select_indices
from orchestrator.settings.run import by_rules, endpoint_of
from tasks.dataset import DatasetError
from tasks.judging.exact_number import final_number
from tasks.judging.grader import EXACT_NUMBER, THREE_STAGES, needs_model, title_of
from tasks.judging.user_function import UserFunctionError, load_function
from tasks.models import Example
from tasks.openai.fitting import prompt_estimate
from tasks.openai.provider import estimate_tokens
from tasks.plan import EXAMPLE_SETS
from tasks.questions import Columns, SplitExample, in_split, read_questions
from tasks.store.store import Store
from tasks.tables import Format, format_of

Examples = dict[str, list[Example]]
Watch = Callable[[str, tuple[int, int] | None], None]
MOST_LISTED = 10


def choose_examples(settings: Settings) -> Examples:
    """The training, validation and test set, fixed for the run; the latter two may be empty.

    Raises: SettingsError, once, for data that cannot be read, splits and indices that the data does not have, and
    questions that are in two sets.
    """
    file_format = _format(settings)
    questions = _with_distinct_ids(_read(settings, file_format))
    chosen: dict[str, Sequence[SplitExample]] = {}
    problems: list[str] = []
    for which in EXAMPLE_SETS:
        split = "" if file_format == "financebench" else getattr(settings, f"{which}_split")
        indices = getattr(settings, f"{which}_indices") or ("all" if split else "")
        try:
            rows = in_split(questions, split) if split else questions
            chosen[which] = [rows[index] for index in select_indices(indices, len(rows))]
        except DatasetError as error:
            problems.append(f"CONFIG_{which.upper()}_SPLIT: {error}")
        except ValueError as error:
            problems.append(f"CONFIG_{which.upper()}_INDICES: {error}")
    if problems := problems or _shared(chosen):
        raise SettingsError(problems)
    return {which: [question.example for question in rows] for which, rows in chosen.items()}


def check_judge(settings: Settings, examples: Mapping[str, Sequence[Example]]) -> None:
    """Whether the chosen judge can judge: golds have numbers, and the workers of an embedded farm have the function.

    The workers of an external farm have an environment of their own, which is not known here.
    Raises: SettingsError.
    """
    if settings.judge == EXACT_NUMBER:
        rows = [row for which in EXAMPLE_SETS for row in examples[which]]
        if without := [row.id for row in rows if final_number(row.gold) is None]:
            more = f" and {len(without) - MOST_LISTED} more" if len(without) > MOST_LISTED else ""
            raise SettingsError(
                [f"CONFIG_JUDGE: right answers without a number: {', '.join(without[:MOST_LISTED])}{more}"]
            )
    elif settings.judge != THREE_STAGES and settings.farm == "embedded":
        try:
            load_function(settings.judge)
        except UserFunctionError as error:
            raise SettingsError([f"CONFIG_JUDGE: {error}"]) from None


def reflector_prompt_estimate(store: Store, run_id: str, answers: int) -> str:
    """How long the prompts of the reflector may be, and whether their answers have to be cut."""
    descriptions = json.dumps(store.clusterings.descriptions(run_id), ensure_ascii=False)
    return prompt_estimate(store.run(run_id), answers, estimate_tokens(descriptions))


def _format(settings: Settings) -> Format:
    if settings.data_format != "auto":
        return settings.data_format
    try:
        return format_of(settings.data_path)
    except DatasetError as error:
        raise _unreadable(error) from None


def _read(settings: Settings, file_format: Format) -> list[SplitExample]:
    columns = Columns(
        id=settings.id_column,
        question=settings.question_column,
        answer=settings.answer_column,
        context=settings.context_column,
        split=settings.split_column,
    )
    try:
        return read_questions(settings.data_path, columns, file_format)
    except DatasetError as error:
        raise _unreadable(error) from None


def _unreadable(error: DatasetError) -> SettingsError:
    return SettingsError([f"CONFIG_DATA_PATH: {line}" for line in str(error).splitlines()])


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
            f"CONFIG_{which.upper()}_INDICES: {count} rows are in the {other} set as well"
            for other, count in shared.items()
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
    endpoint, rules, external = endpoint_of(settings), by_rules(settings), settings.farm == "external"
    return announce(
        provider_at(settings.reflector_model, endpoint, rules=rules, external=external),
        provider_at(settings.judge_model, endpoint, rules=rules, external=external)
        if needs_model(settings.judge)
        else title_of(settings.judge),
        highest_cost(endpoint, rules=rules),
    )
