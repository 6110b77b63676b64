"""Questions and rows to judge, of every format: read whole, or refused whole with each fault by its line and column."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tasks import tables
from tasks.common.validation import PAGE_BYTES
from tasks.questions import (
    AnswerRow,
    Columns,
    SplitExample,
    in_split,
    load_examples,
    read_answer_rows,
    read_questions,
)
from tasks.records import Example
from tasks.tables import DatasetError

ROWS = [
    {"id": "a", "split": "train", "question": "How much?", "context": 'It was "5", then\n6.', "answer": "6"},
    {"id": "b", "split": "test", "question": "Who, and when?", "context": "", "answer": "Ünal"},
]
EXPECTED = [
    SplitExample(Example("a", 'It was "5", then\n6.', "How much?", "6"), "train"),
    SplitExample(Example("b", "", "Who, and when?", "Ünal"), "test"),
]


def write_jsonl(path: Path, *lines: bytes | dict[str, Any]) -> Path:
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
    return path


def write_csv(path: Path, rows: Sequence[dict[str, Any]], delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_parquet(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    return path


def faults(path: Path, read: Any = read_questions) -> list[str]:
    """What the one error says of each fault."""
    with pytest.raises(DatasetError) as caught:
        read(path)
    head, *said = str(caught.value).splitlines()
    assert head.startswith(str(path))
    return [line.strip() for line in said]


def test_the_same_rows_come_out_of_every_format(tmp_path: Path) -> None:
    assert read_questions(write_jsonl(tmp_path / "q.jsonl", *ROWS)) == EXPECTED
    assert read_questions(write_csv(tmp_path / "q.csv", ROWS)) == EXPECTED
    assert read_questions(write_csv(tmp_path / "q.tsv", ROWS, "\t")) == EXPECTED
    assert read_questions(write_parquet(tmp_path / "q.parquet", ROWS)) == EXPECTED


def test_a_csv_file_is_read_with_its_own_delimiter(tmp_path: Path) -> None:
    for text in (
        "question;answer;notes (a, b, c, d)\nHow much, in all?;3,5;-\n",
        'sep=,\r\nquestion,answer\r\n"How much, in all?","3,5"\r\n',
    ):
        (tmp_path / "q.csv").write_text(text, newline="")
        [found] = read_questions(tmp_path / "q.csv")
        assert (found.example.question, found.example.gold) == ("How much, in all?", "3,5")


CITIES = ["Rome", "Paris", "Oslo"]
LABELLED = {"text": CITIES, "label": ["1", "2", "3"]}


RIGHT: list[tuple[object, object]] = [
    *((CITIES, answer) for answer in (1, "B", "1", "Paris")),
    (json.dumps(CITIES), "B"),  # a cell of a CSV file
    *((labelled, 2) for labelled in (LABELLED, {"text": CITIES, "label": [1, 2, 3]})),
    *(({"A": "Rome", "C": "Paris", "D": "Oslo"}, answer) for answer in ("C", "Paris")),
]
WRONG: list[tuple[object, object]] = [
    *((["2", "3"], answer) for answer in (2, "Z")),
    *((choices, 0) for choices in (["2"], "2 or 3", [2, None], LABELLED)),
    *(([2, 3, 0, 1], 3), ("[2, 3, 0, 1]", "3")),  # An index or a text?
]


def test_the_gold_of_a_multiple_choice_row_is_a_text_and_the_question_shows_all_choices(tmp_path: Path) -> None:
    rows = [{"question": "Which?", "choices": choices, "answer": answer} for choices, answer in RIGHT]
    found = read_questions(write_jsonl(tmp_path / "q.jsonl", *rows))
    assert [one.example.gold for one in found] == ["Paris"] * len(RIGHT)
    assert {one.example.question for one in found} == {"Which?\n\nChoices:\n- Rome\n- Paris\n- Oslo"}
    # And an answer that is no choice is refused, unless choices are left out
    rows = [{"question": "Which?", "choices": choices, "answer": answer} for choices, answer in WRONG]
    path = write_jsonl(tmp_path / "q.jsonl", *rows)
    assert [": column choices: " in fault for fault in faults(path)] == [True] * len(WRONG)
    assert read_questions(path, Columns(choices=""))[0].example.question == "Which?"


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ({"text": ["in 1903", "1903", "1903"], "answer_start": [1, 4, 4]}, '["in 1903", "1903"]'),  # SQuAD
        ({"value": "TV", "aliases": ["TV", "television"], "type": "Thing"}, '["TV", "television"]'),  # TriviaQA
        ([7, "seven"], '["7", "seven"]'),
    ],
)
def test_several_accepted_answers_are_read_in_the_forms_of_squad_and_triviaqa(
    tmp_path: Path, answer: object, gold: str
) -> None:
    path = write_jsonl(tmp_path / "q.jsonl", {"question": "When?", "answer": answer})
    assert read_questions(path)[0].example.gold == gold
    write_jsonl(path, {"question": "When?", "gold": answer, "answer": "now"})
    assert read_answer_rows(path)[0].gold == gold


def test_a_cell_that_shows_a_list_and_is_no_json_is_refused(tmp_path: Path) -> None:
    shown = ("{'text': array(['TV'], dtype=object), 'answer_start': array([1])}", "['TV', 'tube']", "['TV' 'tube']")
    path = write_csv(tmp_path / "rows.csv", [{"question": "When?", "answer": one} for one in shown])
    for line, said in enumerate(faults(path), start=2):
        assert f"line {line}: column answer is not JSON" in said
    # and in JSON lines such a text is one, such as the right answer to a question about code
    [found] = read_questions(write_jsonl(tmp_path / "q.jsonl", {"question": "What is printed?", "answer": shown[1]}))
    assert found.example.gold == shown[1]


def test_columns_have_the_names_that_the_settings_give_and_one_that_no_row_has_is_refused(tmp_path: Path) -> None:
    row = {"nr": 7, "part": "dev", "q": "How much?", "passages": ["One.", "Two."], "gold": 3.5, "other": [1]}
    path = write_jsonl(tmp_path / "q.jsonl", row)
    columns = {"id": "nr", "question": "q", "answer": "gold", "context": "passages", "split": "part"}
    expected = [SplitExample(Example("7", "One.\n\nTwo.", "How much?", "3.5"), "dev")]
    assert read_questions(path, Columns(**columns)) == expected
    # such as a name with a typing error, which would leave all contexts empty
    for option in ("id", "context", "split"):
        with pytest.raises(DatasetError, match="no row has a column 'contxt'"):
            read_questions(path, Columns(**columns | {option: "contxt"}))


def test_a_split_is_picked_by_name_and_an_unknown_one_names_those_there_are() -> None:
    assert in_split(EXPECTED, "test") == (EXPECTED[1],)
    with pytest.raises(DatasetError, match="'validation'; the splits: 'test', 'train'"):
        in_split(EXPECTED, "validation")


def page(number: int = 3, text: str = "Sales were $5 million.", name: str = "doc_name") -> dict[str, Any]:
    return {"evidence_text": text, name: "ACME_2023_10K", "evidence_page_num": number, "evidence_text_full_page": text}


def row(identifier: str = "id_1", **changes: Any) -> dict[str, Any]:
    return {"financebench_id": identifier, "question": "How much?", "answer": "$5", "evidence": [page()], **changes}


def test_each_page_of_a_document_enters_the_context_once(tmp_path: Path) -> None:
    evidence = [page(3, "Three."), page(9, "Nine."), page(3, "Three again."), page(4, "Four.", "evidence_doc_name")]
    [example] = load_examples(write_jsonl(tmp_path / "q.jsonl", row(evidence=evidence)))
    assert example.context == "Three.\n\nNine.\n\nFour."


GOOD_ROW = {"question": "How much?", "gold": "$5", "answer": "5 dollars"}
FINANCEBENCH = {
    "evidence is missing": row("no evidence", evidence=None),
    "invalid JSON at column 31": b'{"financebench_id": "broken", ',
    "financebench_id 'fine' is already on line 1": row("fine"),
    "financebench_id is missing": {name: value for name, value in row().items() if name != "financebench_id"},
    "the row is longer than 16,777,216 bytes": row("longest", question="x" * 48_000_000),
    f"evidence_text_full_page is longer than {PAGE_BYTES:,} bytes": row("huge", evidence=[page(text="x" * 5_000_000)]),
    "question is empty; answer is not text": row("two faults", question=" ", answer=7),
    "evidence[0].evidence_page_num is not a whole number; evidence[1] is not an object": row(
        "pageless", evidence=[{**page(), "evidence_page_num": None}, "text"]
    ),
}
TABLE = {
    "column question is empty": {"id": "c", "question": " ", "answer": "1"},
    "column answer is null": {"id": "d", "question": "?", "answer": None},
    "column answer is not text": {"question": "?", "answer": {"text": [], "answer_start": []}},
    "column split is not text": {"question": "?", "answer": "1", "split": ["x"]},
    "column 'id': 'a' is already in line 1": ROWS[0],
    "not a JSON object": b'["a list"]',
    "'answer' occurs twice": b'{"question": "?", "answer": "1", "answer": "2"}',
    "column question is missing": {"id": "e", "answer": "1"},
    "column answer is nan": b'{"id": "f", "question": "How many?", "answer": NaN}',
}
ANSWERS = {
    "invalid JSON": b"[" * 100_000,
    "question is empty; gold is null": GOOD_ROW | {"gold": None, "question": ""},
    "answer is missing": {"question": "a", "gold": "b"},
    "invalid UTF-8 at byte 14": b'{"question": "\xff"}',
    "half of a surrogate pair": GOOD_ROW | {"answer": "\ud800"},
}


@pytest.mark.parametrize(
    ("read", "good", "bad"),
    [
        (load_examples, row("fine"), FINANCEBENCH),
        (read_questions, ROWS[0], TABLE),
        (read_answer_rows, GOOD_ROW, ANSWERS),
    ],
    ids=["financebench", "table", "answers"],
)
def test_all_faults_are_said_at_once_by_line(tmp_path: Path, read: Any, good: Any, bad: Any) -> None:
    path = write_jsonl(tmp_path / "q.jsonl", good, *bad.values())
    found = faults(path, read)
    assert [fault.split(":")[0] for fault in found] == [f"line {number}" for number in range(2, len(bad) + 2)]
    assert [words for fault, words in zip(found, bad, strict=True) if words not in fault] == []


def test_faults_of_csv_and_parquet_have_their_lines_or_rows(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text('sep=,\nid,question,answer\na,"How\nmuch?",5\nb,Who?\nc,Who?,x,y\nd,,1\n')
    assert faults(tmp_path / "q.csv") == [
        "line 5: the row ends before column 'answer'",
        "line 6: 1 more cells than the header has",
        "line 7: column question is empty",
    ]
    said = faults(write_parquet(tmp_path / "q.parquet", [{**ROWS[0], "question": None}, {**ROWS[1], "answer": ""}]))
    assert said == ["row 1: column question is null", "row 2: column answer is empty"]
    with pytest.raises(DatasetError, match="no column 'question'"):
        read_questions(write_parquet(tmp_path / "other.parquet", [{"q": 1, "answer": "x"}]))


def test_rows_to_judge_come_in_order_blank_lines_and_other_fields_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    empty = json.dumps(GOOD_ROW | {"answer": "", "model": "x"})
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD_ROW).encode() + b"\r\n\n" + empty.encode())
    assert read_answer_rows(path) == [AnswerRow("How much?", "$5", "5 dollars"), AnswerRow("How much?", "$5", "")]
    path.write_bytes(b"\n\n")
    for name in ("rows.jsonl", "none.jsonl"):
        with pytest.raises(DatasetError, match=name):
            read_answer_rows(tmp_path / name)


def test_a_parquet_file_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "q.parquet"
    # by its number of rows, and by the length of their texts together
    monkeypatch.setattr(tables, "TABLE_BYTES", 1_000_000)
    for rows, said in ((2_000_000, "more than 1,000,000 rows"), (2000, "more than 1,000,000 bytes")):
        texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * rows, pyarrow.int32()), ["x" * 1000])
        parquet.write_table(pyarrow.table({"question": texts, "answer": texts}), path)
        assert path.stat().st_size < 1_000_000
        with pytest.raises(DatasetError, match=said):
            read_questions(path)
