"""The second answer: the file of questions, which columns it has, and which rows are used for what."""

from __future__ import annotations

import itertools
import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.init.asking import WrongAnswer
from tasks.dataset import DatasetError
from tasks.escape import quote
from tasks.models import Example
from tasks.plan import EXAMPLE_SETS, ExampleSet
from tasks.questions import Columns, SplitExample, read_questions
from tasks.tables import Format, format_of, read_table

LEAST_QUESTIONS = 20
LOOKED_AT = 100  # rows, for the names of columns
OPTIONAL = ("context", "id", "split")
NAMES: Mapping[str, Sequence[str]] = {
    "question": ("question", "query", "prompt", "problem", "input"),
    "answer": ("answer", "gold", "gold_answer", "target", "output", "solution"),
    "context": ("context", "passage", "document", "documents", "evidence"),
    "id": ("id", "question_id", "uid"),
    "split": ("split", "subset"),
}
"""By which names a column is found, the likelier first; upper and lower case do not matter."""
SPLITS: Mapping[ExampleSet, Sequence[str]] = {
    "training": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test",),
}
SHARES: Mapping[ExampleSet, float] = {"training": 0.4, "validation": 0.3, "test": 0.3}
"""Of rows without splits."""


@dataclass(frozen=True)
class QuestionsChoice:
    """`options` are settings as a person types them; `rows` are those that each set may use, in order."""

    options: Mapping[str, str]
    rows: Mapping[ExampleSet, Sequence[int]]
    examples: Mapping[ExampleSet, Sequence[Example]]
    about: str

    def sizes(self) -> dict[ExampleSet, int]:
        return {which: len(self.rows[which]) for which in EXAMPLE_SETS}

    def with_sizes(self, sizes: Mapping[ExampleSet, int]) -> dict[str, str]:
        """The settings with the first so many questions of each set."""
        indices = {f"{which.upper()}_INDICES": _listed(self.rows[which][: sizes[which]]) for which in EXAMPLE_SETS}
        return {**self.options, **indices}


def read_questions_file(text: str) -> QuestionsChoice:
    """PATH, and where the columns have unusual names COLUMN=NAME behind it: questions.csv answer=Antwort.

    Raises: WrongAnswer when it cannot be read, has no column for question or answer, or too few rows.
    """
    path, named = _path_and_names(text)
    try:
        file_format = format_of(path)
        columns = Columns() if file_format == "financebench" else _columns(path, file_format, named)
        questions = read_questions(path, columns, file_format)
    except DatasetError as error:
        raise WrongAnswer(str(error)) from None
    if len(questions) < LEAST_QUESTIONS:
        raise WrongAnswer(f"{path} has {len(questions)} questions; at least {LEAST_QUESTIONS} are needed")
    splits, rows = _sets(questions)
    options = {"DATA_PATH": str(path), **splits}
    if file_format != "financebench":
        options |= {f"{which.upper()}_COLUMN": getattr(columns, which) for which in NAMES}
    examples = {which: _rows_of(questions, splits[f"{which.upper()}_SPLIT"], rows[which]) for which in EXAMPLE_SETS}
    return QuestionsChoice(options, rows, examples, _about(questions, columns, file_format, rows))


def _path_and_names(text: str) -> tuple[Path, dict[str, str]]:
    """Raises: WrongAnswer."""
    if not text:
        raise WrongAnswer("name a file: JSON Lines, CSV, Parquet or a saved `datasets` folder (docs/data.md)")
    text = os.path.expanduser(text)
    if Path(text).exists():
        return Path(text), {}
    try:
        first, *others = shlex.split(text)
    except ValueError as error:
        raise WrongAnswer(f"{quote(text)}: {error}") from None
    named = dict(word.split("=", 1) for word in others if "=" in word)
    if len(named) < len(others) or not named.keys() <= NAMES.keys():
        raise WrongAnswer(f"behind the file only {', '.join(f'{which}=COLUMN' for which in NAMES)} can be given")
    if not Path(first).exists():
        raise WrongAnswer(f"{quote(first)} does not exist")
    return Path(first), named


def _columns(path: Path, file_format: Format, named: Mapping[str, str]) -> Columns:
    """The columns by the names that a person gave, or else by those that are usual.

    Raises: WrongAnswer, DatasetError.
    """
    present: dict[str, None] = {}
    for row in itertools.islice(read_table(path, file_format, ()), LOOKED_AT):
        present |= dict.fromkeys(name for name in row.values if name)
    if not present:
        raise WrongAnswer(f"{path} has no rows")
    found: dict[str, str] = {}
    lower = {name.lower(): name for name in present}
    for which, usual in NAMES.items():
        if which in named and named[which] not in present:
            raise WrongAnswer(f"{path} has no column {quote(named[which])}; it has {', '.join(present)}")
        found[which] = named.get(which) or next((lower[name] for name in usual if name in lower), "")
        if not found[which] and which not in OPTIONAL:
            raise WrongAnswer(
                f"{path} has no column for the {which} among {', '.join(present)}; name it: {path} {which}=COLUMN"
            )
    twice = [name for name, times in Counter(filter(None, found.values())).items() if times > 1]
    if twice:
        raise WrongAnswer(f"the column {quote(twice[0])} is named twice")
    return Columns(**found)


def _sets(questions: Sequence[SplitExample]) -> tuple[dict[str, str], dict[ExampleSet, Sequence[int]]]:
    """The splits of the three sets as settings, and the rows of each, counted in its split or in all rows."""
    counts = Counter(question.split for question in questions)
    there = {which: next((s for s in counts if s.lower() in names), "") for which, names in SPLITS.items()}
    if there["training"]:
        return _by_split(there, counts)
    order = range(len(questions))
    parts = _parts(order, SHARES)
    return {f"{which.upper()}_SPLIT": "" for which in EXAMPLE_SETS}, parts


def _by_split(
    there: Mapping[ExampleSet, str], counts: Mapping[str, int]
) -> tuple[dict[str, str], dict[ExampleSet, Sequence[int]]]:
    """A set without a split of its own takes a part of another: validation of training, test of validation."""
    training = range(counts[there["training"]])
    shares = {which: share for which, share in SHARES.items() if which == "training" or not there[which]}
    parts = _parts(training, shares)
    names = {which: there[which] or there["training"] for which in EXAMPLE_SETS}
    rows = {which: parts[which] if which in parts else range(counts[there[which]]) for which in EXAMPLE_SETS}
    return {f"{which.upper()}_SPLIT": names[which] for which in EXAMPLE_SETS}, rows


def _parts(rows: range, shares: Mapping[ExampleSet, float]) -> dict[ExampleSet, Sequence[int]]:
    """Stretches of the rows, in proportion to the shares."""
    found: dict[ExampleSet, Sequence[int]] = {}
    total, begin, given = sum(shares.values()), 0, 0.0
    for which, share in shares.items():
        given += share
        end = round(len(rows) * given / total)
        found[which] = rows[begin:end]
        begin = end
    return found


def _rows_of(questions: Sequence[SplitExample], split: str, rows: Sequence[int]) -> list[Example]:
    there = [question.example for question in questions if not split or question.split == split]
    return [there[row] for row in rows]


def _listed(rows: Sequence[int]) -> str:
    """Rows in a row as "3-7"; "" for none."""
    if not rows:
        return ""
    return str(rows[0]) if len(rows) == 1 else f"{rows[0]}-{rows[-1]}"


def _about(
    questions: Sequence[SplitExample],
    columns: Columns,
    file_format: Format,
    rows: Mapping[ExampleSet, Sequence[int]],
) -> str:
    sizes = ", ".join(f"{len(rows[which])} for {which}" for which in EXAMPLE_SETS)
    if file_format == "financebench":
        return f"{len(questions)} questions in FinanceBench's format: {sizes}"
    found = [which if getattr(columns, which) == which else f"{which} ({getattr(columns, which)})"
             for which in NAMES if getattr(columns, which)]  # fmt: skip
    without = [which for which in NAMES if not getattr(columns, which)]
    absent = f"; no column for {', '.join(without)}" if without else ""
    return f"{len(questions)} questions; columns: {', '.join(found)}{absent}; {sizes}"
