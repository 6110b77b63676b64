"""Questions from any file that `tasks.tables` reads, with columns named by settings.

A row has a question, its right answer, and perhaps an id, a context and the split that it belongs to.  FinanceBench's
own format, whose context is nested, is JSON lines.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from decimal import Decimal
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from tasks.common.text import quote
from tasks.common.validation import ANSWER_BYTES, CONTEXT_BYTES, GOLD_BYTES, NAME_BYTES, PAGE_BYTES, QUESTION_BYTES
from tasks.records import Example
from tasks.tables import (
    DatasetError,
    TableRow,
    WrittenFloat,
    check_row_count,
    format_of,
    json_object,
    malformed,
    read_each,
    read_table,
    text_field,
)


@dataclass(frozen=True)
class Columns:
    """The names of the columns.  Without an `id`, rows are numbered; `context`, `split` and `choices` may be "".

    A name other than these must be that of a column.
    """

    id: str = "id"
    question: str = "question"
    answer: str = "answer"
    context: str = "context"
    split: str = "split"
    choices: str = "choices"

    def __post_init__(self) -> None:
        names = [getattr(self, field.name) for field in fields(self)]
        named = [name for name in names if name]
        if not self.question or not self.answer or len(set(named)) != len(named):
            raise ValueError(f"the columns {names} are not six different names with a question and an answer")

    @property
    def named(self) -> list[str]:
        """The names that the settings change: columns of these names must be in the file."""
        return [
            getattr(self, field.name) for field in fields(self) if getattr(self, field.name) not in ("", field.default)
        ]


def parse_columns(text: str) -> Columns:
    """As in "question=Frage answer='die Antwort'"."""
    known = [field.name for field in fields(Columns)]
    named: dict[str, str] = {}
    for word in shlex.split(text):
        which, equals, name = word.partition("=")
        if which not in known or not equals or which in named:
            raise ValueError(f"{word!r} is not COLUMN=NAME, once for each of {', '.join(known)}")
        named[which] = name
    return Columns(**named)


@dataclass(frozen=True)
class SplitExample:
    """One question and the split that its row names; "" where it names none."""

    example: Example
    split: str


def read_questions(path: str | Path, columns: Columns | None = None) -> list[SplitExample]:
    """Every question of a file, in the order of its rows.

    Raises: DatasetError, once, with all malformed rows by line (or row) and column.
    """
    path, columns = Path(path), columns or Columns()
    chosen = format_of(path)
    if chosen == "financebench":
        return [SplitExample(example, "") for example in load_examples(path)]
    questions: list[SplitExample] = []
    faults: list[str] = []
    first_place: dict[tuple[str, str], str] = {}
    present: set[str] = set()
    for number, row in enumerate(read_table(path, chosen, (columns.question, columns.answer)), start=1):
        question, found = _question(row, columns, number)
        is_choice = bool(row.values.get(columns.choices))
        if chosen == "csv" and not is_choice and _is_python_list(row.values.get(columns.answer)):
            found.append(f"column {columns.answer} is not JSON: write a list of accepted answers as JSON")
        present |= row.values.keys()
        key = (question.split, question.example.id)
        earlier = first_place.setdefault(key, row.place) if not found else row.place
        if earlier != row.place:
            found.append(f"column {columns.id!r}: {question.example.id!r} is already in {earlier}")
        faults += [f"{row.place}: {fault}" for fault in found]
        check_row_count(path, number)
        if not faults:
            questions.append(question)
    if faults:
        raise malformed(path, faults)
    if not questions:
        raise DatasetError(f"{path}: no rows")
    if absent := [name for name in columns.named if name not in present]:
        raise DatasetError(f"{path}: no row has a column {' or a column '.join(map(repr, absent))}")
    return questions


def in_split(questions: Sequence[SplitExample], split: str) -> tuple[SplitExample, ...]:
    """The questions of one split, in their order."""
    chosen = tuple(question for question in questions if question.split == split)
    if not chosen:
        present = sorted({question.split for question in questions} - {""})
        listed = ", ".join(map(repr, present)) if present else "no row names one"
        raise DatasetError(f"no row is in the split {split!r}; the splits: {listed}")
    return chosen


def _question(row: TableRow, columns: Columns, number: int) -> tuple[SplitExample, list[str]]:
    """One row understood, and what is wrong with it."""
    if row.fault:
        return SplitExample(Example("", "", "", ""), ""), [row.fault]
    values = {name: value for name, value in row.values.items() if name}
    faults: list[str] = []
    if values.get(columns.choices) not in (None, "") and columns.question in values and columns.answer in values:
        try:
            texts, values[columns.answer] = _chosen(values[columns.choices], values[columns.answer])
            values[columns.question] = "\n- ".join([f"{values[columns.question]}\n\nChoices:", *texts])
        except DatasetError as error:
            faults.append(f'{columns.choices}: {error}; DATA_COLUMNS="choices=" leaves choices out')
    for name, read in ((columns.id, _as_text), (columns.answer, _as_gold), (columns.context, _joined)):
        if name in values:
            try:
                values[name] = read(values[name])
            except DatasetError as error:
                faults.append(f"{name} {error}")
    identifier = text_field(values, columns.id, faults, NAME_BYTES) if columns.id in values else str(number)
    question = text_field(values, columns.question, faults, QUESTION_BYTES)
    answer = text_field(values, columns.answer, faults, GOLD_BYTES)
    context = values.get(columns.context)
    if context not in (None, ""):
        context = text_field(values, columns.context, faults, PAGE_BYTES)
    split = _as_text(values.get(columns.split))
    if split is not None and not isinstance(split, str):
        faults.append(f"{columns.split} is not text")
    elif len(split or "") > NAME_BYTES:
        faults.append(f"{columns.split} is longer than {NAME_BYTES:,} bytes")
    example = Example(identifier, context or "", question, answer)
    return SplitExample(example, split if isinstance(split, str) else ""), [f"column {fault}" for fault in faults]


def _as_text(value: Any) -> Any:
    """A finite number as the file has it, without an exponent where the file has no text; whatever else as it is."""
    if isinstance(value, WrittenFloat):
        return value.text if math.isfinite(value) else value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, float | Decimal) or not math.isfinite(value):
        return value
    return format(Decimal(repr(value)) if isinstance(value, float) else value, "f").removesuffix(".0")


def _chosen(choices: Any, gold: Any) -> tuple[list[str], str]:
    """The texts of a multiple-choice row, and the right one of them.

    The row has a list, {"text": [...], "label": [...]}, or {label: text}.
    The gold is an index from 0, a label (A, B, ... where the row names none), or the text itself.  Where the labels
    are numbers, a number is a label.  One that may be the index of a choice and the text of another is refused.
    """
    is_cell = isinstance(choices, str)
    if is_cell and choices.lstrip().startswith(("[", "{")):  # of a CSV file
        with suppress(ValueError):
            choices = json.loads(choices)
    labels: list[Any] = []
    if isinstance(choices, dict):
        if not {"label", "text"} & choices.keys():  # {"A": text, "B": text}
            choices = {"label": list(choices), "text": list(choices.values())}
        labels, choices = choices.get("label"), choices.get("text")
    texts = [_as_text(one) for one in choices] if isinstance(choices, list) else []
    if len(texts) < 2 or not all(isinstance(text, str) and text.strip() for text in texts):
        raise DatasetError("not a list of two or more texts")
    named = str(_as_text(gold)).strip()
    given = labels if isinstance(labels, list) else []
    labels = [str(_as_text(label)) for label in given or ascii_uppercase][: len(texts)]
    indices = [] if given and all(map(str.isdecimal, labels)) else [str(place) for place in range(len(texts))]
    is_index = bool(indices) and isinstance(gold, int) and not isinstance(gold, bool)
    if given and named in labels:
        return texts, texts[labels.index(named)]
    by_index = texts[int(named)] if named in indices else ""
    # A cell of a CSV file does not tell 3 from "3"
    if named in texts and by_index != named and (is_index or (is_cell and by_index)):
        raise DatasetError(f"the answer {quote(named)} may be an index from 0 or a text: write its label (A, B, ...)")
    for names in ([] if is_index else texts, labels, indices):
        if named in names:
            return texts, texts[names.index(named)]
    raise DatasetError(f"the answer {quote(named)} is none of these {len(texts)}")


_OBJECT = re.compile(
    r"""\s*\{\s*['"](?:text|answer_start|value|aliases|normalized_\w+)['"]\s*:\s*(?:\[|array\(|['"])"""
)
_PYTHON_LIST = re.compile(r"""\s*\[\s*['"].*\]\s*""", re.DOTALL)


def _as_gold(value: Any) -> Any:
    """Several accepted answers, of which any is right, as one JSON list of texts; whatever else as `_as_text`.

    They are a list of texts, {"text": [...]} as in SQuAD, or {"value": ..., "aliases": [...]} as in TriviaQA.  Such an
    object may be the JSON of a cell; as Python shows it (`to_csv` of pandas) it is refused.
    """
    if isinstance(value, str) and _OBJECT.match(value):
        try:
            found = json.loads(value)
        except ValueError:
            raise DatasetError("is not JSON: write an object or a list of accepted answers as JSON") from None
        if isinstance(found, dict) and any(isinstance(found.get(name), list) for name in ("text", "aliases")):
            value = found
    if isinstance(value, dict):
        value = value.get("text") if "text" in value else [value.get("value"), *(value.get("aliases") or ())]
    if isinstance(value, list) and value:
        texts = [_as_text(part) for part in value]
        if all(isinstance(text, str) and text.strip() for text in texts):
            texts = [*dict.fromkeys(texts)]
            return texts[0] if len(texts) == 1 else json.dumps(texts, ensure_ascii=False)
    return _as_text(value)


def _is_python_list(cell: Any) -> bool:
    """Whether a cell is a list of texts as Python or numpy shows it (`to_csv` of pandas), and not as JSON."""
    if not isinstance(cell, str) or not _PYTHON_LIST.fullmatch(cell):
        return False
    try:
        json.loads(cell)
    except ValueError:
        return True
    return False


def _joined(value: Any) -> Any:
    """A list of paragraphs as one text; whatever else as it is."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "\n\n".join(value)
    return value


def load_examples(path: str | Path) -> list[Example]:
    """Every question of a file in FinanceBench's format, in the order of its lines.

    The context is the `evidence_text_full_page` of each evidence entry, each page of a document once, joined by an
    empty line.  The document is `doc_name` or `evidence_doc_name`.
    """
    first_line: dict[str, int] = {}

    def parse(number: int, line: bytes) -> Example:
        row = json_object(line)
        faults: list[str] = []
        identifier = text_field(row, "financebench_id", faults, NAME_BYTES)
        question = text_field(row, "question", faults, QUESTION_BYTES)
        gold = text_field(row, "answer", faults, GOLD_BYTES)
        context = _context(row, faults)
        if not faults and (earlier := first_line.setdefault(identifier, number)) != number:
            faults.append(f"financebench_id {identifier!r} is already on line {earlier}")
        if faults:
            raise DatasetError("; ".join(faults))
        return Example(identifier, context, question, gold)

    return read_each(path, parse)


def _context(row: dict[str, Any], faults: list[str]) -> str:
    evidence = row.get("evidence")
    if not isinstance(evidence, list) or not evidence:
        faults.append("evidence is not a list" if evidence else "evidence is missing")
        return ""
    pages: dict[tuple[str, int], str] = {}
    for index, entry in enumerate(evidence):
        where = f"evidence[{index}]"
        if not isinstance(entry, dict):
            faults.append(f"{where} is not an object")
            continue
        name = "evidence_doc_name" if "evidence_doc_name" in entry else "doc_name"
        document = text_field(entry, name, faults, NAME_BYTES, f"{where}.")
        page = entry.get("evidence_page_num")
        if not isinstance(page, int) or isinstance(page, bool):
            faults.append(f"{where}.evidence_page_num is not a whole number")
            continue
        text = text_field(entry, "evidence_text_full_page", faults, PAGE_BYTES, f"{where}.")
        pages.setdefault((document, page), text)
    context = "\n\n".join(pages.values())
    if len(context.encode("utf-8", "replace")) > CONTEXT_BYTES:
        faults.append(f"evidence is longer than {CONTEXT_BYTES:,} bytes")
        return ""
    return context


@dataclass(frozen=True)
class AnswerRow:
    """An answer to judge. Rows with the same texts are equal, and have one verdict."""

    question: str
    gold: str
    answer: str


def read_answer_rows(path: Path) -> list[AnswerRow]:
    """The rows of a file of JSON lines with question, gold and answer; other fields of a row are ignored."""

    def parse(_: int, line: bytes) -> AnswerRow:
        values = json_object(line)
        faults: list[str] = []
        question = text_field(values, "question", faults, QUESTION_BYTES)
        if "gold" in values:
            values["gold"] = _as_gold(values["gold"])
        gold, answer = text_field(values, "gold", faults, GOLD_BYTES), values.get("answer")
        if not isinstance(answer, str) or answer.strip():  # an empty answer is one: it is judged, and wrong
            answer = text_field(values, "answer", faults, ANSWER_BYTES)
        if faults:
            raise DatasetError("; ".join(faults))
        return AnswerRow(question, gold, answer)

    return read_each(path, parse)
