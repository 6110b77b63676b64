"""Questions in FinanceBench's format, read whole or refused whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.common.validation import PAGE_BYTES
from tasks.questions import load_examples
from tasks.tables import DatasetError

SAMPLE = Path(__file__).parents[2] / "configs" / "data" / "sample.jsonl"


def page(number: int = 3, text: str = "Sales were $5 million.", name: str = "doc_name") -> dict[str, Any]:
    return {"evidence_text": text, name: "ACME_2023_10K", "evidence_page_num": number, "evidence_text_full_page": text}


def row(identifier: str = "id_1", **changes: Any) -> dict[str, Any]:
    whole = {"financebench_id": identifier, "question": "How much?", "answer": "$5 million", "evidence": [page()]}
    return {name: value for name, value in {**whole, **changes}.items() if value is not ...}


def written(folder: Path, *lines: bytes | dict[str, Any]) -> Path:
    path = folder / "questions.jsonl"
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
    return path


def refusal(path: Path) -> list[str]:
    with pytest.raises(DatasetError) as caught:
        load_examples(path)
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


def test_rows_are_read_in_the_order_of_their_lines(tmp_path: Path) -> None:
    examples = load_examples(written(tmp_path, row("b"), b"", row("a", answer="No."), b"  "))

    assert [(example.id, example.question, example.gold) for example in examples] == [
        ("b", "How much?", "$5 million"),
        ("a", "How much?", "No."),
    ]


def test_each_page_of_a_document_enters_the_context_once(tmp_path: Path) -> None:
    evidence = [page(3, "Three."), page(9, "Nine."), page(3, "Three again."), page(4, "Four.", "evidence_doc_name")]

    (example,) = load_examples(written(tmp_path, row(evidence=evidence)))

    assert example.context == "Three.\n\nNine.\n\nFour."


def test_all_malformed_rows_are_named_in_one_error(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        row("fine"),
        row("no evidence", evidence=...),
        row("null answer", answer=None),
        b'{"financebench_id": "broken", ',
        row("fine"),
        b'{"financebench_id": "caf\xe9"}',
        row("longest", question="x" * 48_000_000),
        row("huge", evidence=[page(text="x" * 5_000_000)]),
        b"[1, 2]",
        row("two faults", question=" ", answer=7),
        row("half a pair", question="\ud800?"),
        row("pageless", evidence=[{**page(), "evidence_page_num": None}, "text"]),
        b"[" * 100_000,
    )

    faults = refusal(path)

    assert [fault.split(":")[0] for fault in faults] == [f"line {number}" for number in range(2, 14)]
    expected = [
        "evidence is missing",
        "answer is null",
        "invalid JSON at column 31",
        "financebench_id 'fine' is already on line 1",
        "invalid UTF-8 at byte 24",
        "the row is longer than 16,777,216 bytes",
        f"evidence_text_full_page is longer than {PAGE_BYTES:,} bytes",
        "not a JSON object",
        "question is empty; answer is not text",
        "question holds half of a surrogate pair",
        "evidence[0].evidence_page_num is not a whole number; evidence[1] is not an object",
        "invalid JSON",
    ]
    for fault, words in zip(faults, expected, strict=True):
        assert words in fault
