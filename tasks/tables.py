"""Rows of a file in any format, and what is wrong with them: JSON lines, CSV or Parquet, which needs pyarrow."""

from __future__ import annotations

import csv
import importlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO, TypeVar

from tasks.common.files import open_regular
from tasks.common.text import first_line
from tasks.common.validation import MIB, PAGE_BYTES, REPORTED_FAULTS, ROW_BYTES, ROWS, unrepeated

T = TypeVar("T")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
Format = Literal["financebench", "jsonl", "csv", "parquet"]
SUFFIXES: Mapping[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}
UNREADABLE = (UnicodeDecodeError, OverflowError)  # values of Arrow for which Python has none
DELIMITERS = ",;\t|"
_SEPARATOR = re.compile(r'"?sep=([^\w"])"?')  # the first line of a file of Excel
BATCH_ROWS, BATCH_BYTES = 256, 256 * MIB  # of Parquet in memory at a time; a row may have megabytes
TABLE_BYTES = 512 * MIB  # of all rows: a value that is repeated takes a few bytes of a Parquet file


class WrittenFloat(float):
    """A number of a file with the digits that it has there: 0.00005, which Python writes as 5e-05."""

    text: str

    def __new__(cls, text: str) -> WrittenFloat:
        number = super().__new__(cls, text)
        number.text = text
        return number


class DatasetError(ValueError):
    """The file cannot be read, or rows of it are malformed. The message names every fault by its line number."""


def malformed(path: str | Path, faults: list[str]) -> DatasetError:
    """One error for all faults of a file; it lists the first of many."""
    rows = "one fault" if len(faults) == 1 else f"{len(faults)} faults"
    more = [f"and {len(faults) - REPORTED_FAULTS} more"] if len(faults) > REPORTED_FAULTS else []
    return DatasetError("\n  ".join([f"{path}: {rows}", *faults[:REPORTED_FAULTS], *more]))


def read_each(path: str | Path, parse: Callable[[int, bytes], T]) -> list[T]:
    """What `parse` makes of each line of a file, with its number; all faults are one error, and no row is one too."""
    found: list[T] = []
    faults: list[str] = []
    for number, line in read_lines(Path(path)):
        try:
            found.append(parse(number, line))
        except DatasetError as error:
            faults.append(f"line {number}: {error}")
    if faults:
        raise malformed(path, faults)
    if not found:
        raise DatasetError(f"{path}: no rows")
    return found


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, with their numbers; of a longer one the first `ROW_BYTES` + 1 bytes."""
    count = 0
    try:
        with open_regular(path) as file:
            for number, line in enumerate(iter(lambda: file.readline(ROW_BYTES + 1), b""), start=1):
                rest = line
                while len(rest) >= ROW_BYTES and not rest.endswith(b"\n"):
                    rest = file.readline(ROW_BYTES)
                content = (line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line).rstrip(b"\r\n")
                if content.strip():
                    count += 1
                    check_row_count(path, count)
                    yield number, content
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror}") from error


def check_row_count(path: Path, count: int) -> None:
    if count > ROWS:
        raise DatasetError(f"{path}: it has more than {ROWS:,} rows; give a file with a part of them")


def json_object(line: bytes) -> dict[str, Any]:
    """One line as a JSON object, in which no key occurs twice."""
    if len(line) > ROW_BYTES:
        raise DatasetError(f"the row is longer than {ROW_BYTES:,} bytes")
    try:
        row = json.loads(line.decode("utf-8"), object_pairs_hook=unrepeated, parse_float=WrittenFloat)
    except UnicodeDecodeError as error:
        raise DatasetError(f"invalid UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise DatasetError(f"invalid JSON at column {error.colno}: {error.msg}") from error
    except (RecursionError, ValueError) as error:  # nested too deep, an integer of thousands of digits, a key twice
        raise DatasetError(f"invalid JSON: {error}") from error
    if not isinstance(row, dict):
        raise DatasetError("not a JSON object")
    return row


def text_field(row: dict[str, Any], name: str, faults: list[str], most: int, where: str = "") -> str:
    """The text of a field, of `most` bytes at most, or "" with a fault noted."""
    value = row.get(name)
    if isinstance(value, str) and value.strip():
        try:
            if len(value) <= most and len(value.encode()) <= most:
                return value
            fault = f"is longer than {most:,} bytes"
        except UnicodeEncodeError:
            fault = "holds half of a surrogate pair"
    elif value is None:
        fault = "is null" if name in row else "is missing"
    else:
        no_text = f"is {value}" if isinstance(value, float) else "is not text"
        fault = "is empty" if isinstance(value, str) else no_text
    faults.append(f"{where}{name} {fault}")
    return ""


@dataclass(frozen=True)
class TableRow:
    """One row as it was read.  `place` says where it stands, `fault` why it could not be read at all."""

    place: str
    values: Mapping[str, Any]
    fault: str = ""


def format_of(path: str | Path) -> Format:
    """The format of a file, by its name.

    A JSON-lines file whose first row has a `financebench_id`, or evidence with full pages, is FinanceBench's.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise DatasetError(f"{path}: is not named {', '.join(SUFFIXES)}")
    return "financebench" if SUFFIXES[suffix] == "jsonl" and _is_financebench(path) else SUFFIXES[suffix]


def read_table(path: Path, file_format: Format, required: Sequence[str]) -> Iterator[TableRow]:
    """The rows of a file, one at a time; a JSON line or CSV row that cannot be read comes with its fault.

    `required` are columns that a file with a header or a schema must have.
    """
    readers = {"jsonl": _jsonl, "csv": _csv, "parquet": _parquet}
    return readers[file_format](path, required)


def _jsonl(path: Path, required: Sequence[str]) -> Iterator[TableRow]:
    del required
    for number, line in read_lines(path):
        place = f"line {number}"
        try:
            yield TableRow(place, json_object(line))
        except DatasetError as error:
            yield TableRow(place, {}, fault=str(error))


def _csv(path: Path, required: Sequence[str]) -> Iterator[TableRow]:
    """The rows below the header; a row's place is the line on which it ends."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            before = csv.field_size_limit(PAGE_BYTES)
            try:
                lines = _limited_lines(path, file)
                first, above = next(lines, ""), 0
                delimiter = "\t" if path.suffix.lower() == ".tsv" else _delimiter(first, required)
                if said := _SEPARATOR.fullmatch(first.rstrip("\r\n")):
                    first, above, delimiter = next(lines, ""), 1, said[1]
                if not first:  # the file is empty: it has no rows, whatever its columns
                    return
                reader = csv.DictReader(itertools.chain([first], lines), delimiter=delimiter, strict=True)
                _check_columns(path, required, reader.fieldnames or ())
                for row in reader:
                    yield _csv_row(row, above + reader.line_num)
            except csv.Error as error:
                raise DatasetError(f"{path}: line {above + reader.reader.line_num}: {error}") from None
            finally:
                csv.field_size_limit(before)
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}: invalid UTF-8 at byte {error.start}; save it as UTF-8") from None
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror}") from None


def _delimiter(header: str, required: Sequence[str]) -> str:
    """What separates the columns: with it the header has those that are required, and the most; or else a comma."""

    def fit(delimiter: str) -> tuple[bool, int]:
        cells = next(csv.reader([header[:PAGE_BYTES]], delimiter=delimiter), [])
        return set(required) <= set(cells), len(cells)

    return max(DELIMITERS, key=fit)


def _limited_lines(path: Path, file: TextIO) -> Iterator[str]:
    for number, line in enumerate(iter(lambda: file.readline(ROW_BYTES + 1), ""), start=1):
        if len(line) > ROW_BYTES:
            raise DatasetError(f"{path}: line {number} is longer than {ROW_BYTES:,} bytes")
        yield line


def _csv_row(row: dict[Any, Any], line: int) -> TableRow:
    place = f"line {line}"
    if None in row:
        return TableRow(place, {}, fault=f"{len(row[None])} more cells than the header has")
    missing = [name for name, value in row.items() if value is None]
    if missing:
        return TableRow(place, {}, fault=f"the row ends before column {missing[0]!r}")
    return TableRow(place, row)


def _parquet(path: Path, required: Sequence[str]) -> Iterator[TableRow]:
    pyarrow = _import_pyarrow(path)
    try:
        file = pyarrow.parquet.ParquetFile(path)
        _check_columns(path, required, file.schema_arrow.names)
        footer = file.metadata
        check_row_count(path, footer.num_rows)
        places = [(group, column) for group in range(footer.num_row_groups) for column in range(footer.num_columns)]
        chunks = [footer.row_group(group).column(column).total_uncompressed_size for group, column in places]
        # A value of a chunk is no longer than the chunk; each row of a batch may repeat it.
        rows = max(1, min(BATCH_ROWS, BATCH_BYTES // max(chunks, default=1)))
        yield from _table_rows(path, file.iter_batches(batch_size=rows))
    except (pyarrow.ArrowException, OSError, *UNREADABLE) as error:
        raise DatasetError(f"{path}: no Parquet file that can be read: {first_line(error)}") from None


def _table_rows(path: Path, batches: Any) -> Iterator[TableRow]:
    import numpy as np  # pyarrow needs it as well; files of text do not

    number = size = 0
    for batch in batches:
        narrow = {
            field.name: field.type.to_pandas_dtype()
            for field in batch.schema
            if str(field.type) in ("float", "halffloat")
        }
        size += sum(_unpacked_bytes(column) for column in batch.columns)
        if size > TABLE_BYTES:
            raise DatasetError(
                f"{path}: its rows have more than {TABLE_BYTES:,} bytes; give a file with a part of them"
            )
        for values in batch.to_pylist():
            number += 1
            for name, kind in narrow.items():  # as a double, 0.1 of a float column is 0.10000000149011612
                if values[name] is not None:
                    values[name] = WrittenFloat(np.format_float_positional(kind(values[name]), trim="-"))
            yield TableRow(f"row {number}", values)


def _unpacked_bytes(array: Any) -> int:
    """Bytes of an Arrow array, with each value of a dictionary as often as its rows or their lists name it."""
    import pyarrow
    import pyarrow.compute

    kind = array.type
    if pyarrow.types.is_dictionary(kind):
        try:
            lengths = pyarrow.compute.binary_length(array.dictionary)
        except pyarrow.ArrowNotImplementedError:  # numbers, which are no longer than what names them
            return int(array.nbytes)
        return int(pyarrow.compute.sum(lengths.take(array.indices)).as_py() or 0)
    if pyarrow.types.is_struct(kind):
        return sum(map(_unpacked_bytes, array.flatten()))
    if pyarrow.types.is_nested(kind) and hasattr(array, "flatten"):
        return len(array) + _unpacked_bytes(array.flatten())
    return int(array.nbytes)


def _check_columns(path: Path, required: Sequence[str], present: Sequence[str]) -> None:
    missing = [name for name in required if name not in present]
    if missing:
        raise DatasetError(f"{path}: no column {' and no column '.join(map(repr, missing))}; it has {list(present)}")
    twice = [name for name, times in Counter(present).items() if name and times > 1]
    if twice:
        raise DatasetError(f"{path}: two columns are named {' and two '.join(map(repr, twice))}")


def _import_pyarrow(path: Path) -> Any:
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError:
        raise DatasetError(f"{path}: reading it needs pyarrow: pip install '.[data]'") from None


def _is_financebench(path: Path) -> bool:
    try:
        for _, line in read_lines(path):
            row = json_object(line)
            entries = row["evidence"] if isinstance(row.get("evidence"), list) else []
            return "financebench_id" in row or any(
                isinstance(entry, dict) and "evidence_text_full_page" in entry for entry in entries
            )
    except DatasetError:
        return False  # `read_table` reports what is wrong with the file
    return False
