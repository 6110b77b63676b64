"""Questions from files of every format: read whole, or refused whole with each fault by its line and column."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks import tables
from tasks.common.validation import PAGE_BYTES
from tasks.questions import Columns, SplitExample, in_split, load_examples, read_answer_rows, read_questions
from tasks.records import Example
from tasks.tables import DatasetError, format_of

ROWS = [
    {"id": "a", "split": "train", "question": "How much?", "context": 'It was "5", then\n6.', "answer": "6"},
    {"id": "b", "split": "test", "question": "Who, and when?", "context": "", "answer": "Ünal"},
]


EXPECTED = [
    SplitExample(Example("a", 'It was "5", then\n6.', "How much?", "6"), "train"),
    SplitExample(Example("b", "", "Who, and when?", "Ünal"), "test"),
]


def write_jsonl(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def write_csv(path: Path, rows: Sequence[dict[str, Any]], delimiter: str = ",") -> Path:
    import csv

    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_parquet(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    return path


def faults(path: Path, **options: Any) -> str:
    with pytest.raises(DatasetError) as caught:
        read_questions(path, **options)
    assert str(path) in str(caught.value)
    return str(caught.value)


SAMPLE = Path(__file__).parents[2] / "configs/data/sample.jsonl"


def test_the_same_rows_come_out_of_every_format(tmp_path: Path) -> None:
    assert read_questions(write_jsonl(tmp_path / "q.jsonl", ROWS)) == EXPECTED
    assert read_questions(write_csv(tmp_path / "q.csv", ROWS)) == EXPECTED
    assert read_questions(write_csv(tmp_path / "q.tsv", ROWS, "\t")) == EXPECTED
    assert read_questions(write_parquet(tmp_path / "q.parquet", ROWS)) == EXPECTED


@pytest.mark.parametrize(
    "text",
    [
        "question;answer\nHow much, in all?;3,5\n",
        "question|answer\nHow much, in all?|3,5\n",
        'sep=,\r\nquestion,answer\r\n"How much, in all?","3,5"\r\n',
        'sep=;\nquestion;answer\n"How much, in all?";3,5\n',
        '"question","answer"\n"How much, in all?","3,5"\n',
        "question;answer;notes (a, b, c, d)\nHow much, in all?;3,5;-\n",
    ],
)
def test_a_csv_file_is_read_with_its_own_delimiter(tmp_path: Path, text: str) -> None:
    (tmp_path / "q.csv").write_text(text, newline="")
    [found] = read_questions(tmp_path / "q.csv")
    assert (found.example.question, found.example.gold) == ("How much, in all?", "3,5")


NAMED = {"text": ["Rome", "Paris", "Oslo"], "label": ["1", "2", "3"]}


@pytest.mark.parametrize(
    ("choices", "answer"),
    [
        (["Rome", "Paris", "Oslo"], 1),
        (["Rome", "Paris", "Oslo"], "B"),
        (["Rome", "Paris", "Oslo"], "1"),
        (["Rome", "Paris", "Oslo"], "Paris"),
        ('["Rome", "Paris", "Oslo"]', "B"),  # a cell of a CSV file
        (NAMED, "2"),
        (NAMED, 1),
        ({**NAMED, "label": [1, 2, 3]}, 2),  # labels that are numbers
        ({**NAMED, "label": [1, 2, 3]}, "2"),
    ],
)
def test_the_gold_of_a_multiple_choice_row_is_a_text_and_the_question_shows_all(
    tmp_path: Path, choices: object, answer: object
) -> None:
    rows = [{"question": "Which city?", "choices": choices, "answer": answer}]
    [found] = read_questions(write_jsonl(tmp_path / "q.jsonl", rows))
    assert found.example.gold == "Paris"
    assert found.example.question == "Which city?\n\nChoices:\n- Rome\n- Paris\n- Oslo"


@pytest.mark.parametrize(
    ("choices", "answer"),
    [
        (["2", "3"], 2),
        (["2", "3"], "Z"),
        (["2"], 0),
        ("2 or 3", "3"),
        ([2, None], 0),
        ({**NAMED, "label": [1, 2, 3]}, 0),
    ],
)
def test_an_answer_that_is_no_choice_is_refused_unless_choices_are_left_out(
    tmp_path: Path, choices: object, answer: object
) -> None:
    path = write_jsonl(tmp_path / "q.jsonl", [{"question": "Which?", "choices": choices, "answer": answer}])
    assert "column choices: " in faults(path)
    assert read_questions(path, Columns(choices=""))[0].example.question == "Which?"


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ({"text": ["in 1903", "1903", "1903"], "answer_start": [1, 4, 4]}, '["in 1903", "1903"]'),  # SQuAD
        (
            {"value": "TV", "aliases": ["TV", "television"], "type": "Thing"},
            '["TV", "television"]',
        ),  # TriviaQA
        ({"text": ["1903"]}, "1903"),
        ([7, "seven"], '["7", "seven"]'),
    ],
)
def test_several_accepted_answers_are_read_in_the_forms_of_squad_and_triviaqa(
    tmp_path: Path, answer: object, gold: str
) -> None:
    [found] = read_questions(write_jsonl(tmp_path / "q.jsonl", [{"question": "When?", "answer": answer}]))
    assert found.example.gold == gold
    path = write_jsonl(tmp_path / "rows.jsonl", [{"question": "When?", "gold": answer, "answer": "now"}])
    assert read_answer_rows(path)[0].gold == gold


def test_the_columns_have_the_names_that_the_settings_give(tmp_path: Path) -> None:
    rows = [{"nr": 7, "part": "dev", "q": "How much?", "passages": ["One.", "Two."], "gold": 3.5, "other": [1]}]
    columns = Columns(id="nr", question="q", answer="gold", context="passages", split="part")
    expected = [SplitExample(Example("7", "One.\n\nTwo.", "How much?", "3.5"), "dev")]
    assert read_questions(write_jsonl(tmp_path / "q.jsonl", rows), columns) == expected


@pytest.mark.parametrize("option", ["id", "context", "split"])
def test_a_column_that_is_named_and_that_no_row_has_is_refused(tmp_path: Path, option: str) -> None:
    # given a name with a typing error, which would leave all contexts empty
    path = write_jsonl(tmp_path / "q.jsonl", [{"question": "How much?", "answer": "6"}] * 2)
    with pytest.raises(DatasetError, match="no row has a column 'contxt'"):
        read_questions(path, Columns(**{option: "contxt"}))
    # when one row has it, then the others may lack it
    rows = [{"question": "How much?", "answer": "6"}, {"question": "Who?", "answer": "7", "contxt": "x"}]
    assert len(read_questions(write_jsonl(path, rows), Columns(**{option: "contxt"}))) == 2


def test_a_financebench_file_whose_first_row_lacks_its_id_is_refused_as_one(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in SAMPLE.read_text().splitlines()[:2]]
    del rows[0]["financebench_id"]
    assert "line 1: financebench_id is missing" in faults(write_jsonl(tmp_path / "q.jsonl", rows))
    other = [{"question": "?", "answer": "1", "evidence": evidence} for evidence in ("a page", ["a page"], [{}], None)]
    assert format_of(write_jsonl(tmp_path / "other.jsonl", other)) == "jsonl"
    assert len(read_questions(tmp_path / "other.jsonl")) == len(other)


def test_a_split_is_picked_by_name_and_an_unknown_one_names_those_there_are() -> None:
    assert in_split(EXPECTED, "test") == (EXPECTED[1],)
    with pytest.raises(DatasetError, match="'validation'; the splits: 'test', 'train'"):
        in_split(EXPECTED, "validation")
    with pytest.raises(DatasetError, match="no row names one"):
        in_split([SplitExample(EXPECTED[0].example, "")], "train")


@pytest.mark.parametrize(
    "cell",
    [
        '{"text": ["TV", "tube"], "answer_start": [1, 2]}',
        '{"value": "TV", "aliases": ["tube"]}',
        '["TV", "tube"]',
    ],
)
def test_accepted_answers_may_be_the_json_of_a_cell(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["question", "answer"], ["Where?", cell]])
    assert [one.example.gold for one in read_questions(path)] == ['["TV", "tube"]']
    shown = ("{'text': array(['TV'], dtype=object), 'answer_start': array([1])}", "['TV', 'tube']", "['TV' 'tube']")
    with path.open("a", newline="") as file:
        csv.writer(file).writerows(["When?", one] for one in shown)
    said = faults(path)
    assert all(f"line {line}: column answer is not JSON" in said for line in (3, 4, 5))
    # and in JSON lines such a text is one, such as the right answer to a question about code
    [found] = read_questions(write_jsonl(tmp_path / "q.jsonl", [{"question": "What is printed?", "answer": shown[1]}]))
    assert found.example.gold == shown[1]


@pytest.mark.parametrize("answer", ["C", "Copper"])
def test_choices_may_be_an_object_of_labels(tmp_path: Path, answer: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"question": "Which?", "choices": {"A": "Iron", "C": "Copper"}, "answer": answer}))
    [found] = read_questions(path)
    assert found.example.gold == "Copper" and found.example.question.endswith("- Iron\n- Copper")


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

    found = [line.strip() for line in faults(path).splitlines()[1:]]

    assert [fault.split(":")[0] for fault in found] == [f"line {number}" for number in range(2, 14)]
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
    for fault, words in zip(found, expected, strict=True):
        assert words in fault


def test_all_faults_are_said_at_once_by_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    good = json.dumps(ROWS[0])
    lines = [
        good,
        '{"id": "c", "question": " ", "answer": null}',
        "{",
        '{"id": "d", "question": ["x"], "answer": true, "context": {"a": 1}, "split": ["x"]}',
        "",
        good,
        '["a list"]',
        '{"id": "e", "answer": "1"}',
        '{"id": "f", "question": "How many?", "answer": NaN}',
    ]
    path.write_text("\n".join(lines), "utf-8")

    said = faults(path).splitlines()[1:]

    assert [line.strip() for line in said] == [
        "line 2: column question is empty",
        "line 2: column answer is null",
        "line 3: invalid JSON at column 2: Expecting property name enclosed in double quotes",
        "line 4: column question is not text",
        "line 4: column answer is not text",
        "line 4: column context is not text",
        "line 4: column split is not text",
        "line 6: column 'id': 'a' is already in line 1",
        "line 7: not a JSON object",
        "line 8: column question is missing",
        "line 9: column answer is nan",
    ]


def test_faults_of_a_csv_have_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text('id,question,answer\na,"How\nmuch?",5\nb,Who?\nc,Who?,x,y\nd,,1\n', "utf-8")
    said = faults(path)
    assert "line 4: the row ends before column 'answer'" in said
    assert "line 5: 1 more cells than the header has" in said
    assert "line 6: column question is empty" in said
    assert "line 3" not in said


def test_a_parquet_file_names_rows_and_columns(tmp_path: Path) -> None:
    said = faults(write_parquet(tmp_path / "q.parquet", [{**ROWS[0], "question": None}, {**ROWS[1], "answer": ""}]))
    assert "row 1: column question is null" in said
    assert "row 2: column answer is empty" in said
    assert "no column 'question'" in faults(write_parquet(tmp_path / "other.parquet", [{"q": 1, "answer": "x"}]))


NAMES = st.sampled_from(["id", "question", "answer", "context", "split", "x"])
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.text(max_size=3))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.dictionaries(NAMES, VALUES), max_size=4))
def test_whatever_a_row_holds_it_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, rows: Any) -> None:
    path = write_jsonl(tmp_path_factory.mktemp("rows") / "q.jsonl", rows)
    try:
        questions = read_questions(path)
    except DatasetError:
        return
    assert len(questions) == len(rows) > 0
    assert all(q.example.question.strip() and q.example.gold.strip() for q in questions)


def test_a_parquet_file_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    """Two million times one text take a few kilobytes: the footer's number of rows is checked before any is read."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def write(rows: int, length: int, *, in_lists: bool = False) -> Path:
        texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * rows, pyarrow.int32()), ["x" * length])
        columns = {"question": texts, "answer": texts}
        if in_lists:  # one of one text, and one of all others
            short = pyarrow.array(["x"] * 2)
            ends = pyarrow.array([0, 1, rows], pyarrow.int32())
            columns = {"question": short, "answer": short, "context": pyarrow.ListArray.from_arrays(ends, texts)}
        parquet.write_table(pyarrow.table(columns), tmp_path / "q.parquet")
        return tmp_path / "q.parquet"

    path = write(2_000_000, 1000)
    assert path.stat().st_size < 1_000_000
    assert "more than 1,000,000 rows" in faults(path)
    # And so are rows whose texts together are too long for a process
    monkeypatch.setattr(tables, "TABLE_BYTES", 1_000_000)
    assert "more than 1,000,000 bytes" in faults(write(2000, 1000))
    assert "more than 1,000,000 bytes" in faults(write(2000, 1000, in_lists=True))
    assert len(read_questions(write(900, 1000, in_lists=True))) == 2
