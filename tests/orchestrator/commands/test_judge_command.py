"""`orchestrator judge`: a verdict for every row, in order."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from compatible_servers import Refusal, Server, completion, serving
from rules_server import KEY, RulesServer, rules_server

from orchestrator import console
from orchestrator.cli import main

NUMBER = {"question": "Capital expenditure in USD millions?", "gold": "$1577.00", "answer": "It was $1,577 million."}
NEAR = NUMBER | {"answer": "It was $1,700 million."}
PROSE = {"question": "Is it capital intensive?", "gold": "No, it is not.", "answer": "No, not at all."}
WRONG = PROSE | {"answer": "Yes, it is."}
EMPTY = PROSE | {"answer": " "}
NOBODY = "http://127.0.0.1:9/v1"
UNLIMITED = {"OPENAI_REQUESTS_PER_MINUTE": 100_000, "OPENAI_TOKENS_PER_MINUTE": 1_000_000_000}


Verdicts = list[tuple[bool | None, int]]


class Done(NamedTuple):
    status: int
    verdicts: Verdicts
    err: str


def verdicts(text: str) -> Verdicts:
    rows = [json.loads(line) for line in text.splitlines()]
    assert all(set(row) == {"is_correct", "stage", "reasoning"} and row["reasoning"] for row in rows)
    return [(row["is_correct"], row["stage"]) for row in rows]


Judge = Callable[..., Done]


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Judge:
    """Run the command on these rows, with a key; settings given by name are those of its --config."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    def run(rows: list[Any], *options: object, **settings: str | int) -> Done:
        path = tmp_path / "rows.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        if settings:
            config = tmp_path / "judge.config"
            written = (f"CONFIG_{name}={json.dumps(value)}\n" for name, value in {**UNLIMITED, **settings}.items())
            config.write_text("".join(written))
            options = (*options, "--config", config)
        status = main(["judge", str(path), *map(str, options)])
        out, err = capsys.readouterr()
        return Done(status, verdicts(out), err)

    return run


@pytest.fixture
def rules(tmp_path: Path) -> Iterator[RulesServer]:
    """A model's endpoint."""
    with rules_server(tmp_path / "calls.jsonl") as server:
        yield server


def test_without_a_config_rules_judge_and_leave_open_what_they_must(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", NOBODY)
    done = judge([PROSE, NUMBER, EMPTY, NEAR])
    assert (done.status, done.verdicts) == (0, [(None, 1), (True, 1), (False, 1), (None, 1)])
    assert judge([NEAR], "--tolerance", "0.1").verdicts == [(True, 1)]


def test_a_model_is_asked_once_for_equal_rows(judge: Judge, rules: RulesServer, tmp_path: Path) -> None:
    rows = [PROSE, WRONG, NUMBER, PROSE, PROSE, WRONG, EMPTY]
    done = judge(rows, "--output", tmp_path / "verdicts.jsonl", **rules.options)
    assert (done.status, done.verdicts) == (0, []), done.err
    expected = [(True, 2), (False, 2), (True, 1), (True, 2), (True, 2), (False, 2), (False, 1)]
    assert verdicts((tmp_path / "verdicts.jsonl").read_text()) == expected
    assert len(rules.calls()) == 2


def test_a_budget_that_is_spent_ends_it_and_what_was_judged_is_written(judge: Judge, rules: RulesServer) -> None:
    rows = [PROSE | {"answer": f"No, not at all: {number}."} for number in range(9)]
    done = judge(rows, **rules.options, BUDGET_USD="0.3", OPENAI_PRICES="100 100 100")
    assert done.status == 2 and "budget" in done.err, done.err
    calls = len(rules.calls())
    assert len([verdict for verdict, _ in done.verdicts if verdict is not None]) == calls < len(rows)
    assert f"{calls} calls" in done.err and "$0.3" in done.err


@pytest.mark.parametrize(("fault", "ended_by"), [("invalid_json", 6), ("quota", 2)])
def test_a_fault_of_every_call_ends_it_and_the_rows_that_were_refused_before_are_named(
    judge: Judge, rules: RulesServer, fault: str, ended_by: int
) -> None:
    rows = [PROSE | {"answer": f"No, not at all: {number}."} for number in range(400)]
    rows[0] = PROSE | {"gold": "not " * 4_000}  # more than the context
    rules.fail(f"*:{fault}:*")
    done = judge(rows, **rules.options, OPENAI_CONTEXT_TOKENS=4_000, JUDGE_MAX_COMPLETION_TOKENS=1_000)
    assert (done.status, done.verdicts) == (2, [(None, 2)] * (ended_by - 1)), done.err
    assert all(f"row {row}: " in done.err for row in (1, ended_by)) and len(rules.calls()) < 300


def test_a_row_that_ends_it_takes_no_paid_verdict_of_later_rows(judge: Judge) -> None:
    refused = PROSE | {"answer": "It says: refuse this."}
    in_flight = threading.Barrier(3)

    class Refusing(Server):
        def complete(self, body: dict[str, Any]) -> Any:
            in_flight.wait(30)
            if refused["answer"] in body["messages"][1]["content"]:
                raise Refusal(400, {"error": {"message": "no such tenant"}})
            reply = dict(reasoning="The same.", category="text", normalized_gt=None, normalized_pred=None,
                         relative_error_pct=None, confidence=0.9, is_correct=True)  # fmt: skip
            return completion({"content": json.dumps(reply)})

    with serving(Refusing()) as server:
        done = judge([PROSE, refused, NUMBER, WRONG, NUMBER], OPENAI_BASE_URL=f"{server.url}/v1")
    assert done.verdicts == [(True, 2), (None, 2), (True, 1), (True, 2)], done.err
    assert done.status == 2 and "row 2: " in done.err and "no such tenant" in done.err


def test_without_a_key_or_with_wrong_options_or_malformed_rows_nothing_is_judged(
    judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "verdicts.jsonl"
    output.write_text("from before\n")
    done = judge([NUMBER, {"question": 1}, []], "--output", output)
    assert (done.status, done.verdicts, "line 2:" in done.err, "line 3:" in done.err) == (1, [], True, True)
    assert output.read_text() == "from before\n"
    assert judge([NUMBER], "--output", tmp_path / "rows.jsonl").status == 1
    assert json.loads((tmp_path / "rows.jsonl").read_text()) == NUMBER
    for name in ("JUDGE_TOLERANCE", "NONSENSE"):
        done = judge([NUMBER], **{name: "9"})
        assert (done.status, name in done.err) == (1, True)
    monkeypatch.delenv("OPENAI_API_KEY")
    done = judge([PROSE, NUMBER], OPENAI_BASE_URL=NOBODY)
    assert (done.status, done.verdicts, "OPENAI_API_KEY" in done.err) == (2, [], True), done.err


OWN_JUDGES = (
    'print("load")\ndef same(question, gold, answer):\n    print("judge")\n    return gold == answer\n'
    "import threading\ndef slow(*texts):\n    return threading.Event().wait(0.5)\n"
)


def test_numbers_alone_or_a_function_of_the_user_judge_without_an_endpoint(
    judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"question": "How many?", "gold": "72", "answer": answer} for answer in ("So 72.", "70, or 71", "none")]
    for chosen in ({}, {"JUDGE": "exact_number", "DATA_PATH": "nowhere.csv"}):  # a config is read for its judge alone
        options = () if chosen else ("--judge", "exact_number")
        assert judge(rows, *options, **chosen).verdicts == [(True, 1), (False, 1), (False, 1)]
    refused = judge([*rows, PROSE], "--judge", "exact_number")
    assert (refused.status, refused.verdicts, "row 4" in refused.err) == (1, [], True)
    own = tmp_path / "own_judges.py"
    own.write_text(OWN_JUDGES)
    done = judge([PROSE, PROSE | {"answer": PROSE["gold"]}], "--judge", f"{own}:same")
    assert done.verdicts == [(False, 1), (True, 1)], done.err  # and nothing that it prints
    refused = judge([PROSE], "--judge", f"{own}:other")
    assert (refused.status, refused.verdicts) == (1, []) and f"{own}:other" in refused.err
    # While nothing is printed for long, it says how far it is
    monkeypatch.setattr(console, "QUIET_S", 0.05)
    done = judge([PROSE], "--judge", f"{own}:slow")
    assert done.status == 0 and "0 of 1 rows judged" in done.err
