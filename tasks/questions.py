"""Questions from any file: JSON lines, CSV, Parquet or a saved `datasets` folder, with columns named by settings.

A row has a question, its right answer, and perhaps an id, a context and the split that it belongs to.  FinanceBench's
own format, whose context is nested, is read by `tasks.dataset`.  Parquet and `datasets` folders need pyarrow, which is
imported when such a file is read.
"""

from __future__ import annotations

import csv
import importlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from tasks.dataset import PAGE_LIMIT_BYTES, DatasetError, json_object, load_examples, read_lines, text_field
from tasks.models import Example

Format = Literal["financebench", "jsonl", "csv", "parquet", "datasets"]
SUFFIXES: Mapping[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}
MOST_FAULTS = 50
"""Faults that one error lists; it says how many more there are."""


@dataclass(frozen=True)
class Columns:
    """The names of the columns.  Without an `id`, rows are numbered; `context` and `split` may be "" or absent."""

    id: str = "id"
    question: str = "question"
    answer: str = "answer"
    context: str = "context"
    split: str = "split"

    def __post_init__(self) -> None:
        """Raises: ValueError when question or answer has no name, or two have one."""
        names = [getattr(self, field.name) for field in fields(self)]
        named = [name for name in names if name]
        if not self.question or not self.answer or len(set(named)) != len(named):
            raise ValueError(f"the columns {names} are not five different names with a question and an answer")


@dataclass(frozen=True)
class SplitExample:
    """One question and the split that its row names; "" where it names none."""

    example: Example
    split: str


@dataclass(frozen=True)
class _Row:
    """One row as it was read.  `place` says where it stands, `fault` why it could not be read at all."""

    place: str
    values: Mapping[str, Any]
    split: str = ""
    fault: str = ""


def format_of(path: str | Path) -> Format:
    """The format of a file or folder, by its name or by the files that `datasets` writes.

    A JSON-lines file whose first row has a `financebench_id` is FinanceBench's.  Raises: DatasetError for another.
    """
    path = Path(path)
    if path.is_dir():
        if any((path / name).is_file() for name in ("dataset_dict.json", "state.json")):
            return "datasets"
        raise DatasetError(f"{path}: a folder without dataset_dict.json or state.json is no saved data set")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise DatasetError(f"{path}: the format of {suffix or 'a file without a suffix'} is not known; say which it is")
    return "financebench" if SUFFIXES[suffix] == "jsonl" and _is_financebench(path) else SUFFIXES[suffix]


def read_questions(
    path: str | Path, columns: Columns | None = None, file_format: Format | None = None
) -> list[SplitExample]:
    """Every question of a file or folder, in the order of its rows.

    Raises: DatasetError, once, with all malformed rows by line (or row) and column: text that is missing, empty or
    longer than `PAGE_LIMIT_BYTES`, an id that an earlier row of the split has; or when the file cannot be read or has
    no rows.
    """
    path, columns = Path(path), columns or Columns()
    chosen = file_format or format_of(path)
    if chosen not in get_args(Format):
        raise DatasetError(f"{path}: {chosen!r} is no format; there are {', '.join(get_args(Format))}")
    if chosen == "financebench":
        return [SplitExample(example, "") for example in load_examples(path)]
    reader = {"jsonl": _jsonl, "csv": _csv, "parquet": _parquet, "datasets": _datasets}[chosen]
    questions: list[SplitExample] = []
    faults: list[str] = []
    first_place: dict[tuple[str, str], str] = {}
    for number, row in enumerate(reader(path, columns), start=1):
        question, found = _question(row, columns, number)
        key = (question.split, question.example.id)
        earlier = first_place.setdefault(key, row.place) if not found else row.place
        if earlier != row.place:
            found.append(f"column {columns.id!r}: {question.example.id!r} is already in {earlier}")
        faults += [f"{row.place}: {fault}" for fault in found]
        questions.append(question)
    if faults:
        raise _malformed(path, faults)
    if not questions:
        raise DatasetError(f"{path}: no rows")
    return questions


def examples_of(questions: Sequence[SplitExample], split: str) -> tuple[Example, ...]:
    """The examples of one split, in their order.  Raises: DatasetError, with the splits there are, for none."""
    examples = tuple(question.example for question in questions if question.split == split)
    if not examples:
        present = sorted({question.split for question in questions} - {""})
        listed = ", ".join(map(repr, present)) if present else "no row names one"
        raise DatasetError(f"no row is in the split {split!r}; the splits: {listed}")
    return examples


def _question(row: _Row, columns: Columns, number: int) -> tuple[SplitExample, list[str]]:
    """One row understood, and what is wrong with it."""
    if row.fault:
        return SplitExample(Example("", "", "", ""), ""), [row.fault]
    values = {
        columns.id: _as_text(row.values.get(columns.id)),
        columns.question: row.values.get(columns.question),
        columns.answer: _as_text(row.values.get(columns.answer)),
        columns.context: _joined(row.values.get(columns.context)),
    }
    faults: list[str] = []
    present = {name: value for name, value in values.items() if name in row.values}
    identifier = text_field(present, columns.id, faults) if columns.id in row.values else str(number)
    question, answer = text_field(present, columns.question, faults), text_field(present, columns.answer, faults)
    context = values[columns.context]
    if columns.context in row.values and context not in (None, ""):
        context = text_field(present, columns.context, faults)
    for name, text in ((columns.question, question), (columns.answer, answer), (columns.context, context)):
        if isinstance(text, str) and len(text.encode("utf-8", "replace")) > PAGE_LIMIT_BYTES:
            faults.append(f"{name} is longer than {PAGE_LIMIT_BYTES:,} bytes")
    split = _as_text(row.values.get(columns.split))
    if split is not None and not isinstance(split, str):
        faults.append(f"{columns.split} is not text")
    example = Example(identifier, context or "", question, answer)
    return SplitExample(example, split if isinstance(split, str) and split else row.split), _by_column(faults)


def _by_column(faults: Sequence[str]) -> list[str]:
    return [f"column {fault}" for fault in faults]


def _as_text(value: Any) -> Any:
    """A finite number as its text; whatever else as it is."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return repr(value) if is_number else value


def _joined(value: Any) -> Any:
    """A list of paragraphs as one text; whatever else as it is."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "\n\n".join(value)
    return value


def _jsonl(path: Path, columns: Columns) -> Iterator[_Row]:
    del columns
    for number, line in read_lines(path):
        place = f"line {number}"
        try:
            yield _Row(place, json_object(line))
        except DatasetError as error:
            yield _Row(place, {}, fault=str(error))


def _csv(path: Path, columns: Columns) -> Iterator[_Row]:
    """The rows below the header; a row's place is the line on which it ends."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            before = csv.field_size_limit(PAGE_LIMIT_BYTES)
            try:
                reader = csv.DictReader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True)
                _check_columns(path, columns, reader.fieldnames or ())
                for row in reader:
                    yield _csv_row(row, reader.line_num)
            except csv.Error as error:
                raise DatasetError(f"{path}: line {reader.reader.line_num}: {error}") from None
            finally:
                csv.field_size_limit(before)
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}: invalid UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror}") from None


def _csv_row(row: dict[Any, Any], line: int) -> _Row:
    place = f"line {line}"
    if None in row:
        return _Row(place, {}, fault=f"{len(row[None])} more cells than the header has")
    missing = [name for name, value in row.items() if value is None]
    if missing:
        return _Row(place, {}, fault=f"the row ends before column {missing[0]!r}")
    return _Row(place, row)


def _parquet(path: Path, columns: Columns) -> Iterator[_Row]:
    pyarrow = _import_pyarrow(path)
    try:
        file = pyarrow.parquet.ParquetFile(path)
        _check_columns(path, columns, file.schema_arrow.names)
        yield from _table_rows(file.iter_batches(), "")
    except (pyarrow.ArrowException, OSError) as error:
        raise DatasetError(f"{path}: no Parquet file that can be read: {_one_line(error)}") from None


def _datasets(path: Path, columns: Columns) -> Iterator[_Row]:
    """The rows of a folder that `save_to_disk` wrote; in one with several splits, their names are the rows' splits."""
    pyarrow = _import_pyarrow(path)
    if not (path / "dataset_dict.json").is_file():
        yield from _arrow_folder(pyarrow, path, columns, "")
        return
    for split in _read_json(path / "dataset_dict.json", "splits"):
        yield from _arrow_folder(pyarrow, path / str(split), columns, str(split))


def _arrow_folder(pyarrow: Any, folder: Path, columns: Columns, split: str) -> Iterator[_Row]:
    for entry in _read_json(folder / "state.json", "_data_files"):
        path = folder / str(entry["filename"] if isinstance(entry, dict) and "filename" in entry else "")
        try:
            with pyarrow.memory_map(str(path)) as source, pyarrow.ipc.open_stream(source) as stream:
                _check_columns(path, columns, stream.schema.names)
                yield from _table_rows(stream, split)
        except (pyarrow.ArrowException, OSError) as error:
            raise DatasetError(f"{path}: no Arrow file that can be read: {_one_line(error)}") from None


def _table_rows(batches: Any, split: str) -> Iterator[_Row]:
    number = 0
    for batch in batches:
        for values in batch.to_pylist():
            number += 1
            place = f"row {number}" + (f" of {split}" if split else "")
            yield _Row(place, values, split)


def _check_columns(path: Path, columns: Columns, present: Sequence[str]) -> None:
    """Raises: DatasetError when question or answer is not there; the others may be absent."""
    missing = [name for name in (columns.question, columns.answer) if name not in present]
    if missing:
        raise DatasetError(f"{path}: no column {' and no column '.join(map(repr, missing))}; it has {list(present)}")


def _read_json(path: Path, key: str) -> list[Any]:
    """A list in one of the files that `save_to_disk` writes.  Raises: DatasetError when it is not there."""
    try:
        value = json.loads(path.read_text("utf-8"))[key]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DatasetError(f"{path}: not as `save_to_disk` writes it: {_one_line(error)}") from None
    if not isinstance(value, list):
        raise DatasetError(f"{path}: not as `save_to_disk` writes it: {key} is no list")
    return value


def _import_pyarrow(path: Path) -> Any:
    """The package with the parts that read Parquet and Arrow streams.  Raises: DatasetError when it is not there."""
    try:
        for part in ("pyarrow.parquet", "pyarrow.ipc"):
            importlib.import_module(part)
        return importlib.import_module("pyarrow")
    except ImportError:
        raise DatasetError(f"{path}: reading it needs pyarrow: pip install 'whetstone[data]'") from None


def _is_financebench(path: Path) -> bool:
    try:
        for _, line in read_lines(path):
            return "financebench_id" in json_object(line)
    except DatasetError:
        return False  # whoever reads the file says what is wrong with it
    return False


def _malformed(path: Path, faults: Sequence[str]) -> DatasetError:
    rows = "one fault" if len(faults) == 1 else f"{len(faults)} faults"
    more = [f"and {len(faults) - MOST_FAULTS} more"] if len(faults) > MOST_FAULTS else []
    return DatasetError("\n  ".join([f"{path}: {rows}", *faults[:MOST_FAULTS], *more]))


def _one_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
