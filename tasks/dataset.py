"""Questions in FinanceBench's format: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tasks.common.files import open_regular
from tasks.common.validation import (
    CONTEXT_BYTES,
    GOLD_BYTES,
    NAME_BYTES,
    PAGE_BYTES,
    QUESTION_BYTES,
    REPORTED_FAULTS,
    ROW_BYTES,
    ROWS,
)
from tasks.records import Example

PairsHook = Callable[[list[tuple[str, Any]]], Any]
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class WrittenFloat(float):
    """A number of a file with the digits that it has there: 0.00005, which Python writes as 5e-05."""

    text: str

    def __new__(cls, text: str) -> WrittenFloat:
        number = super().__new__(cls, text)
        number.text = text
        return number


class DatasetError(ValueError):
    """The file cannot be read, or rows of it are malformed. The message names every fault by its line number."""


def load_examples(path: str | Path) -> list[Example]:
    """Every question of a JSONL file, in the order of its lines; blank lines are skipped.

    The context is the `evidence_text_full_page` of each evidence entry, each page of a document once, joined by an
    empty line.  The document is `doc_name` or `evidence_doc_name`.
    """
    examples: list[Example] = []
    faults: list[str] = []
    first_line: dict[str, int] = {}
    for number, line in read_lines(Path(path)):
        try:
            example = parse_example(line)
            earlier = first_line.setdefault(example.id, number)
            if earlier != number:
                raise DatasetError(f"financebench_id {example.id!r} is already on line {earlier}")
            examples.append(example)
        except DatasetError as error:
            faults.append(f"line {number}: {error}")
    if faults:
        raise malformed(path, faults)
    if not examples:
        raise DatasetError(f"{path}: no rows")
    return examples


def malformed(path: str | Path, faults: list[str]) -> DatasetError:
    """One error for all faults of a file; it lists the first of many."""
    rows = "one fault" if len(faults) == 1 else f"{len(faults)} faults"
    more = [f"and {len(faults) - REPORTED_FAULTS} more"] if len(faults) > REPORTED_FAULTS else []
    return DatasetError("\n  ".join([f"{path}: {rows}", *faults[:REPORTED_FAULTS], *more]))


def parse_example(line: bytes) -> Example:
    """One row as an `Example`."""
    row = json_object(line)
    faults: list[str] = []
    identifier = text_field(row, "financebench_id", faults, NAME_BYTES)
    question = text_field(row, "question", faults, QUESTION_BYTES)
    gold = text_field(row, "answer", faults, GOLD_BYTES)
    context = _context(row, faults)
    if faults:
        raise DatasetError("; ".join(faults))
    return Example(identifier, context, question, gold)


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


def json_object(line: bytes, hook: PairsHook | None = None) -> dict[str, Any]:
    """One line as a JSON object; `hook` makes each object of its pairs."""
    if len(line) > ROW_BYTES:
        raise DatasetError(f"the row is longer than {ROW_BYTES:,} bytes")
    try:
        row = json.loads(line.decode("utf-8"), object_pairs_hook=hook, parse_float=WrittenFloat)
    except UnicodeDecodeError as error:
        raise DatasetError(f"invalid UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise DatasetError(f"invalid JSON at column {error.colno}: {error.msg}") from error
    except (RecursionError, ValueError) as error:  # nested too deep, an integer of thousands of digits, or the hook
        raise DatasetError(f"invalid JSON: {error}") from error
    if not isinstance(row, dict):
        raise DatasetError("not a JSON object")
    return row


def text_field(row: dict[str, Any], name: str, faults: list[str], most: int, where: str = "") -> str:
    """The text of a field, of `most` bytes at most, or "" with a fault noted."""
    value = row.get(name)
    label = where + name
    if name not in row:
        faults.append(f"{label} is missing")
    elif value is None:
        faults.append(f"{label} is null")
    elif not isinstance(value, str):
        faults.append(f"{label} is not text")
    elif len(value) > most or len(value.encode("utf-8", "replace")) > most:
        faults.append(f"{label} is longer than {most:,} bytes")
    elif not value.strip():
        faults.append(f"{label} is empty")
    elif any("\ud800" <= letter <= "\udfff" for letter in value):
        faults.append(f"{label} holds half of a surrogate pair")
    else:
        return value
    return ""


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
