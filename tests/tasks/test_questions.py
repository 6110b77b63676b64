"""Questions from files of every format, and every fault of a file by its line and column."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.dataset import DatasetError, load_examples
from tasks.models import Example
from tasks.questions import Columns, SplitExample, in_split, read_questions
from tasks.tables import format_of

SAMPLE = Path(__file__).parents[2] / "configs/data/sample.jsonl"
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


def write_arrow_folder(folder: Path, rows: Sequence[dict[str, Any]], shards: int = 1) -> Path:
    """As `Dataset.save_to_disk` writes it: state.json and Arrow streams."""
    pyarrow, ipc = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.ipc")
    folder.mkdir(parents=True)
    size = -(-len(rows) // shards)
    names = [f"data-{shard:05}-of-{shards:05}.arrow" for shard in range(shards)]
    for shard, name in enumerate(names):
        table = pyarrow.Table.from_pylist(list(rows[shard * size : (shard + 1) * size]))
        with ipc.new_stream(folder / name, table.schema) as writer:
            writer.write_table(table)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text("{}")
    return folder


def faults(path: Path, **options: Any) -> str:
    with pytest.raises(DatasetError) as caught:
        read_questions(path, **options)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_the_same_rows_come_out_of_every_format(tmp_path: Path) -> None:
    assert read_questions(write_jsonl(tmp_path / "q.jsonl", ROWS)) == EXPECTED
    assert read_questions(write_csv(tmp_path / "q.csv", ROWS)) == EXPECTED
    assert read_questions(write_csv(tmp_path / "q.tsv", ROWS, "\t")) == EXPECTED


def test_parquet_and_saved_datasets_give_the_same_rows(tmp_path: Path) -> None:
    assert read_questions(write_parquet(tmp_path / "q.parquet", ROWS)) == EXPECTED
    assert read_questions(write_arrow_folder(tmp_path / "saved", ROWS)) == EXPECTED
    assert read_questions(write_arrow_folder(tmp_path / "shards", ROWS, shards=2)) == EXPECTED


def test_the_parts_of_a_dataset_dict_are_splits(tmp_path: Path) -> None:
    folder = tmp_path / "dict"
    without = [{k: v for k, v in row.items() if k != "split"} for row in ROWS]
    write_arrow_folder(folder / "train", without[:1])
    write_arrow_folder(folder / "test", without[1:])
    (folder / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert format_of(folder) == "datasets"
    assert read_questions(folder) == EXPECTED


def test_splits_may_number_their_rows_alike(tmp_path: Path) -> None:
    rows = [{**ROWS[0], "id": 0, "split": split} for split in ("train", "test")]
    path = write_jsonl(tmp_path / "q.jsonl", rows)
    assert [(q.example.id, q.split) for q in read_questions(path)] == [("0", "train"), ("0", "test")]


def test_the_columns_have_the_names_that_the_settings_give(tmp_path: Path) -> None:
    rows = [{"nr": 7, "part": "dev", "q": "How much?", "passages": ["One.", "Two."], "gold": 3.5, "other": [1]}]
    columns = Columns(id="nr", question="q", answer="gold", context="passages", split="part")
    expected = [SplitExample(Example("7", "One.\n\nTwo.", "How much?", "3.5"), "dev")]
    assert read_questions(write_jsonl(tmp_path / "q.jsonl", rows), columns) == expected


def test_without_id_context_and_split_rows_are_numbered(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "q.csv", [{"question": "One?", "answer": "1"}, {"question": "Two?", "answer": "2"}])
    expected = [SplitExample(Example("1", "", "One?", "1"), ""), SplitExample(Example("2", "", "Two?", "2"), "")]
    assert read_questions(path) == expected
    assert read_questions(path, Columns(id="", context="", split="")) == expected


def test_a_column_without_a_name_is_nobodys_id_or_context(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text(",question,answer\n17,How many?,72\n", "utf-8")  # as pandas writes its index
    columns = Columns(id="", context="", split="")
    assert read_questions(path, columns) == [SplitExample(Example("1", "", "How many?", "72"), "")]


@pytest.mark.parametrize("option", ["id", "context", "split"])
def test_a_column_that_is_named_and_that_no_row_has_is_refused(tmp_path: Path, option: str) -> None:
    # given a name with a typing error, which would leave all contexts empty
    path = write_jsonl(tmp_path / "q.jsonl", [{"question": "How much?", "answer": "6"}] * 2)
    with pytest.raises(DatasetError, match="no row has a column 'contxt'"):
        read_questions(path, Columns(**{option: "contxt"}))
    # when one row has it, then the others may lack it
    rows = [{"question": "How much?", "answer": "6"}, {"question": "Who?", "answer": "7", "contxt": "x"}]
    assert len(read_questions(write_jsonl(path, rows), Columns(**{option: "contxt"}))) == 2


def test_a_csv_with_two_columns_of_one_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text("question,answer,answer\nHow much?,6,7\n")
    with pytest.raises(DatasetError, match="two columns are named 'answer'"):
        read_questions(path)


def test_rows_of_a_saved_data_set_are_counted_over_all_its_files(tmp_path: Path) -> None:
    # given a data set in two files, whose first rows have the same id
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"id": ["x"], "question": ["How much?"], "answer": ["6"]})
    for name in ("0.arrow", "1.arrow"):
        with pyarrow.OSFile(str(tmp_path / name), "wb") as out, pyarrow.ipc.new_stream(out, table.schema) as stream:
            stream.write_table(table)
    files = [{"filename": "0.arrow"}, {"filename": "1.arrow"}]
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": files}))
    # when and then
    with pytest.raises(DatasetError, match="row 2: column 'id': 'x' is already in row 1"):
        read_questions(tmp_path)


def test_a_huge_number_is_read_as_it_is_written(tmp_path: Path) -> None:
    [question] = read_questions(write_jsonl(tmp_path / "q.jsonl", [{"question": "?", "answer": 10**400}]))
    assert question.example.gold == str(10**400)


def test_financebench_is_recognised_and_read_as_ever() -> None:
    assert format_of(SAMPLE) == "financebench"
    assert [question.example for question in read_questions(SAMPLE)] == load_examples(SAMPLE)


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
        "line 9: column answer is not text",
    ]


def test_many_faults_are_counted_and_the_first_listed(tmp_path: Path) -> None:
    said = faults(write_jsonl(tmp_path / "q.jsonl", [{"question": "?"}] * 200))
    assert "200 faults" in said
    assert said.splitlines()[-1].strip() == "and 150 more"
    assert len(said.splitlines()) == 52


def test_faults_of_a_csv_have_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text('id,question,answer\na,"How\nmuch?",5\nb,Who?\nc,Who?,x,y\nd,,1\n', "utf-8")
    said = faults(path)
    assert "line 4: the row ends before column 'answer'" in said
    assert "line 5: 1 more cells than the header has" in said
    assert "line 6: column question is empty" in said
    assert "line 3" not in said


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no column 'question' and no column 'answer'; it has []"),
        (b"id,question\na,b\n", "no column 'answer'; it has ['id', 'question']"),
        (b"question,answer\n", "no rows"),
        (b"question,answer\n\xff,1\n", "invalid UTF-8"),
        (b'question,answer\n"a,1\n', "line 2: unexpected end of data"),
    ],
)
def test_a_csv_that_is_none_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "q.csv"
    path.write_bytes(content)
    assert says in faults(path)


@pytest.mark.parametrize("name", ["q.jsonl", "q.csv"])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    assert "cannot be read: No such file" in faults(tmp_path / name)


def test_files_of_pyarrow_that_are_damaged_are_named(tmp_path: Path) -> None:
    parquet = write_parquet(tmp_path / "q.parquet", ROWS)
    parquet.write_bytes(parquet.read_bytes()[:-20])
    assert "no Parquet file that can be read" in faults(parquet)
    folder = write_arrow_folder(tmp_path / "saved", ROWS)
    (folder / "data-00000-of-00001.arrow").write_bytes(b"nothing")
    with pytest.raises(DatasetError, match="no Arrow file"):
        read_questions(folder)
    (folder / "state.json").write_text('{"_data_files": 3}')
    with pytest.raises(DatasetError, match="no list"):
        read_questions(folder)
    (folder / "state.json").write_text("{")
    with pytest.raises(DatasetError, match="not as `save_to_disk`"):
        read_questions(folder)


def test_a_parquet_file_names_rows_and_columns(tmp_path: Path) -> None:
    said = faults(write_parquet(tmp_path / "q.parquet", [{**ROWS[0], "question": None}, {**ROWS[1], "answer": ""}]))
    assert "row 1: column question is null" in said
    assert "row 2: column answer is empty" in said
    assert "no column 'question'" in faults(write_parquet(tmp_path / "other.parquet", [{"q": 1, "answer": "x"}]))


def test_without_pyarrow_a_parquet_file_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "q.parquet").write_bytes(b"PAR1")
    assert "pip install 'whetstone[data]'" in faults(tmp_path / "q.parquet")


def test_pyarrow_is_imported_only_for_its_own_files(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "q.jsonl", ROWS)
    script = (
        "import sys; from tasks.questions import read_questions; "
        f"read_questions({str(path)!r}); print('pyarrow' in sys.modules, 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize(("name", "says"), [("q.xlsx", r"\.xlsx is not known"), ("questions", "without a suffix")])
def test_an_unknown_format_is_refused(tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(DatasetError, match=says):
        format_of(tmp_path / name)


def test_a_folder_that_datasets_did_not_write_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no saved data set"):
        format_of(tmp_path)


def test_a_format_may_be_given_where_the_name_says_nothing(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "questions.txt", ROWS)
    assert read_questions(path, file_format="jsonl") == EXPECTED
    assert "no format" in faults(path, file_format="xml")


@pytest.mark.parametrize("change", [{"question": ""}, {"answer": ""}, {"answer": "question"}, {"id": "split"}])
def test_columns_without_a_question_or_with_one_name_twice_are_refused(change: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="five different names"):
        Columns(**change)


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
