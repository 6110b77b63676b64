"""Questions from files of every format."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from question_files import EXPECTED, ROWS, faults, write_csv, write_jsonl, write_parquet

from tasks.questions import Columns, SplitExample, in_split, load_examples, read_answer_rows, read_questions
from tasks.records import Example
from tasks.tables import DatasetError, format_of

SAMPLE = Path(__file__).parents[2] / "configs/data/sample.jsonl"


def test_the_same_rows_come_out_of_every_format(tmp_path: Path) -> None:
    assert read_questions(write_jsonl(tmp_path / "q.jsonl", ROWS)) == EXPECTED
    assert read_questions(write_csv(tmp_path / "q.csv", ROWS)) == EXPECTED
    assert read_questions(write_csv(tmp_path / "q.tsv", ROWS, "\t")) == EXPECTED


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


def test_a_line_below_a_named_delimiter_is_counted(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("sep=;\nquestion;answer\nOne?;1\nTwo?;2;3\n")
    assert "line 4: 1 more cells" in faults(tmp_path / "q.csv")


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
    ("choices", "answer"), [(["2", "3"], 2), (["2", "3"], "Z"), (["2"], 0), ("2 or 3", "3"), ([2, None], 0)]
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


def test_an_answer_of_squad_that_nothing_answers_is_refused(tmp_path: Path) -> None:
    rows = [{"question": "When?", "answer": answer} for answer in ({"text": []}, {}, {"value": None})]
    assert faults(write_jsonl(tmp_path / "q.jsonl", rows)).count("column answer is not text") == 3


def test_parquet_gives_the_same_rows(tmp_path: Path) -> None:
    assert read_questions(write_parquet(tmp_path / "q.parquet", ROWS)) == EXPECTED


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


@pytest.mark.parametrize("option", ["id", "context", "split"])
def test_a_column_that_is_named_and_that_no_row_has_is_refused(tmp_path: Path, option: str) -> None:
    # given a name with a typing error, which would leave all contexts empty
    path = write_jsonl(tmp_path / "q.jsonl", [{"question": "How much?", "answer": "6"}] * 2)
    with pytest.raises(DatasetError, match="no row has a column 'contxt'"):
        read_questions(path, Columns(**{option: "contxt"}))
    # when one row has it, then the others may lack it
    rows = [{"question": "How much?", "answer": "6"}, {"question": "Who?", "answer": "7", "contxt": "x"}]
    assert len(read_questions(write_jsonl(path, rows), Columns(**{option: "contxt"}))) == 2


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


@pytest.mark.parametrize(
    "cell", ['{"text": ["TV", "tube"], "answer_start": [1, 2]}', '{"value": "TV", "aliases": ["tube"]}']
)
def test_accepted_answers_may_be_the_json_of_a_cell(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["question", "answer"], ["Where?", cell]])
    assert [one.example.gold for one in read_questions(path)] == ['["TV", "tube"]']
    shown = "{'text': array(['TV'], dtype=object), 'answer_start': array([1])}"
    with path.open("a", newline="") as file:
        csv.writer(file).writerow(["When?", shown])
    with pytest.raises(DatasetError, match="line 3: column answer is not JSON"):
        read_questions(path)


def test_an_answer_that_is_an_object_of_its_own_stays(tmp_path: Path) -> None:
    path, golds = tmp_path / "rows.jsonl", ['{"text": "a"}', "{'a': 1}", "['a', 'b']", '{"name": ["x"]}']
    path.write_text("\n".join(json.dumps({"question": "?", "answer": gold}) for gold in golds))
    assert [one.example.gold for one in read_questions(path)] == golds


@pytest.mark.parametrize("answer", ["C", "Copper"])
def test_choices_may_be_an_object_of_labels(tmp_path: Path, answer: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"question": "Which?", "choices": {"A": "Iron", "C": "Copper"}, "answer": answer}))
    [found] = read_questions(path)
    assert found.example.gold == "Copper" and found.example.question.endswith("- Iron\n- Copper")
