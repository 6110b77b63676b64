"""`orchestrator judge` as a process: a verdict for every row, in order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from compatible_servers import Refusal, Server, completion, serving
from rules_server import rules_server

from orchestrator import console
from orchestrator.cli import main

NUMBER = {"question": "Capital expenditure in USD millions?", "gold": "$1577.00", "answer": "It was $1,577 million."}
NEAR = NUMBER | {"answer": "It was $1,700 million."}
PROSE = {"question": "Is it capital intensive?", "gold": "No, it is not.", "answer": "No, not at all."}
WRONG = PROSE | {"answer": "Yes, it is."}
EMPTY = PROSE | {"answer": " "}
ROOT = Path(__file__).parents[3]
CONFIG = (ROOT / "configs" / "embedded.config").read_text()


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The address of a model's endpoint, and the file with its calls."""
    with rules_server(tmp_path / "calls.jsonl", "k") as server:
        yield server.url, server.log


def judge(folder: Path, rows: list[dict[str, str]] | bytes, *options: str, **environment: str) -> Any:
    """Run the command on these rows; without a key unless one is given."""
    path = folder / "rows.jsonl"
    path.write_bytes(rows if isinstance(rows, bytes) else "\n".join(map(json.dumps, rows)).encode())
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    command = [sys.executable, "-m", "orchestrator", "judge", str(path), *options]
    return subprocess.run(command, env=kept | environment, capture_output=True, text=True, check=False, timeout=60)


def verdicts(text: str) -> list[tuple[bool | None, int]]:
    rows = [json.loads(line) for line in text.splitlines()]
    assert all(set(row) == {"is_correct", "stage", "reasoning"} and row["reasoning"] for row in rows)
    return [(row["is_correct"], row["stage"]) for row in rows]


def with_model(folder: Path, url: str, **options: str | int) -> list[str]:
    """A config whose judge is a model at this address."""
    data = ROOT / "configs" / "data" / "sample_questions.jsonl"
    chosen = {"DATA_PATH": str(data), "INITIAL_DELTAS_PATH": "zero", "OPENAI_BASE_URL": url, **options}
    kept = [line for line in CONFIG.splitlines() if not any(line.startswith(f"CONFIG_{name}=") for name in chosen)]
    (folder / "model.config").write_text(
        "\n".join(kept + [f"CONFIG_{n}={json.dumps(v)}" for n, v in chosen.items()]) + "\n"
    )
    return ["--config", str(folder / "model.config")]


def test_without_a_config_rules_judge_and_leave_open_what_they_must(tmp_path: Path) -> None:
    # given a key and an address at which nobody is
    there = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    done = judge(tmp_path, [PROSE, NUMBER, EMPTY, NEAR], **there)
    assert done.returncode == 0, done.stderr
    assert verdicts(done.stdout) == [(None, 1), (True, 1), (False, 1), (None, 1)]
    assert verdicts(judge(tmp_path, [NEAR], "--tolerance", "0.1").stdout) == [(True, 1)]
    refused = judge(tmp_path, [NEAR], "--tolerance", "1.5")
    assert (refused.returncode, refused.stdout, "--tolerance" in refused.stderr) == (1, "", True)


def test_a_model_is_asked_once_for_equal_rows(tmp_path: Path, endpoint: tuple[str, Path]) -> None:
    url, log = endpoint
    output = tmp_path / "verdicts.jsonl"
    rows = [PROSE, WRONG, NUMBER, PROSE, PROSE, WRONG, EMPTY]
    done = judge(tmp_path, rows, *with_model(tmp_path, url), "--output", str(output), OPENAI_API_KEY="k")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert verdicts(output.read_text()) == [
        (True, 2), (False, 2), (True, 1), (True, 2), (True, 2), (False, 2), (False, 1)
    ]  # fmt: skip
    assert len(log.read_text().splitlines()) == 2


def test_a_budget_that_is_spent_ends_it_and_what_was_judged_is_written(
    tmp_path: Path, endpoint: tuple[str, Path]
) -> None:
    url, log = endpoint
    rows = [PROSE | {"answer": f"No, not at all: {number}."} for number in range(9)]
    chosen = {"BUDGET_USD": "0.3", "OPENAI_PRICES": "100 100 100"}
    done = judge(tmp_path, rows, *with_model(tmp_path, url, **chosen), OPENAI_API_KEY="k")
    assert done.returncode == 2 and "budget" in done.stderr, done.stderr
    calls = len(log.read_text().splitlines())
    paid = [verdict for verdict, _ in verdicts(done.stdout) if verdict is not None]
    assert len(paid) == calls < len(rows)
    assert f"{calls} calls" in done.stderr and "$0.3" in done.stderr


def test_a_row_that_the_endpoint_refuses_is_named_and_the_others_are_judged(tmp_path: Path) -> None:
    with rules_server(tmp_path / "calls.jsonl", "k") as server:
        server.fail("*:context:1")
        done = judge(tmp_path, [PROSE, NUMBER, WRONG, PROSE], *with_model(tmp_path, server.url), OPENAI_API_KEY="k")
    found = [verdict for verdict, _ in verdicts(done.stdout)]
    assert (done.returncode, found[1], found.count(None)) == (2, True, 1 if found[2] is None else 2)
    assert f"row {found.index(None) + 1}: " in done.stderr


@pytest.mark.parametrize(("fault", "ended_by"), [("invalid_json", 6), ("quota", 2)])
def test_a_fault_of_every_call_ends_it_and_the_rows_that_were_refused_before_are_named(
    tmp_path: Path, fault: str, ended_by: int
) -> None:
    rows = [PROSE | {"answer": f"No, not at all: {number}."} for number in range(100)]
    rows[0] = PROSE | {"gold": "not " * 4_000}  # more than the context
    with rules_server(tmp_path / "calls.jsonl", "k") as server:
        server.fail(f"*:{fault}:*")
        config = with_model(tmp_path, server.url, OPENAI_CONTEXT_TOKENS=4_000, JUDGE_MAX_COMPLETION_TOKENS=1_000)
        done = judge(tmp_path, rows, *config, OPENAI_API_KEY="k")
    assert (done.returncode, verdicts(done.stdout)) == (2, [(None, 2)] * (ended_by - 1)), done.stderr
    assert all(f"row {row}: " in done.stderr for row in (1, ended_by)) and len(server.calls()) < len(rows)


def test_a_row_that_ends_it_takes_no_paid_verdict_of_later_rows(tmp_path: Path) -> None:
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
        rows = [PROSE, refused, NUMBER, WRONG, NUMBER]
        done = judge(tmp_path, rows, *with_model(tmp_path, f"{server.url}/v1"), OPENAI_API_KEY="k")
    assert verdicts(done.stdout) == [(True, 2), (None, 2), (True, 1), (True, 2)], done.stderr
    assert done.returncode == 2 and "row 2: " in done.stderr and "no such tenant" in done.stderr


def test_a_config_is_read_for_its_judge_alone(tmp_path: Path) -> None:
    (tmp_path / "judge.config").write_text('CONFIG_JUDGE="exact_number"\nCONFIG_DATA_PATH="nowhere.csv"\n')
    row = {"question": "How many?", "gold": "72", "answer": "So 72."}
    done = judge(tmp_path, [row], "--config", str(tmp_path / "judge.config"))
    assert verdicts(done.stdout) == [(True, 1)], done.stderr
    (tmp_path / "judge.config").write_text('CONFIG_JUDGE_TOLERANCE="9"\n')
    assert "JUDGE_TOLERANCE" in judge(tmp_path, [row], "--config", str(tmp_path / "judge.config")).stderr


def test_a_judge_that_cannot_be_reached_is_an_error_and_no_verdict(tmp_path: Path) -> None:
    done = judge(tmp_path, [PROSE, NUMBER], *with_model(tmp_path, "http://127.0.0.1:9/v1"))  # and without a key
    assert done.returncode == 2 and "OPENAI_API_KEY" in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert verdicts(done.stdout) == []


def test_malformed_rows_and_settings_are_refused_before_anything_is_judged(tmp_path: Path) -> None:
    output = tmp_path / "verdicts.jsonl"
    output.write_text("from before\n")
    rows = b'{"question": "a", "gold": "b", "answer": "c"}\n{"question": 1}\nnonsense\n'
    done = judge(tmp_path, rows, "--output", str(output))
    assert (done.returncode, done.stdout, "line 2:" in done.stderr, "line 3:" in done.stderr) == (1, "", True, True)
    (tmp_path / "x.config").write_text("CONFIG_NONSENSE=1\n")
    done = judge(tmp_path, [NEAR], "--config", str(tmp_path / "x.config"), "--output", str(output))
    assert done.returncode == 1 and "CONFIG_NONSENSE" in done.stderr
    assert output.read_text() == "from before\n"
    done = judge(tmp_path, [NUMBER], "--output", str(tmp_path / "rows.jsonl"))
    assert done.returncode == 1 and json.loads((tmp_path / "rows.jsonl").read_text()) == NUMBER


def test_exact_numbers_are_judged_without_an_endpoint(tmp_path: Path) -> None:
    rows = [{"question": "How many?", "gold": "72", "answer": answer} for answer in ("So 72.", "70, or 71", "none")]
    done = judge(tmp_path, rows, "--judge", "exact_number")
    assert verdicts(done.stdout) == [(True, 1), (False, 1), (False, 1)], done.stderr
    refused = judge(tmp_path, [*rows, PROSE], "--judge", "exact_number")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert len(refused.stderr.splitlines()) == 1 and "row 4" in refused.stderr and PROSE["gold"] in refused.stderr


def test_a_command_that_takes_long_says_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "QUIET_S", 0.05)
    (tmp_path / "rows.jsonl").write_text(json.dumps(PROSE))
    own = tmp_path / "slow_judges.py"
    own.write_text("import threading\ndef slow(*texts):\n    return threading.Event().wait(0.5)\n")
    assert main(["judge", str(tmp_path / "rows.jsonl"), "--judge", f"{own}:slow"]) == console.DONE
    assert "0 of 1 rows judged" in capsys.readouterr().err


def test_a_function_of_the_user_judges_and_one_that_is_not_there_is_named(tmp_path: Path) -> None:
    own = tmp_path / "own_judges.py"
    own.write_text('print("load")\ndef same(question, gold, answer):\n    print("judge")\n    return gold == answer\n')
    done = judge(tmp_path, [PROSE, PROSE | {"answer": PROSE["gold"]}], "--judge", f"{own}:same")
    assert verdicts(done.stdout) == [(False, 1), (True, 1)], done.stderr  # and nothing that it prints
    refused = judge(tmp_path, [PROSE], "--judge", f"{own}:other")
    assert (refused.returncode, refused.stdout) == (1, "") and f"{own}:other" in refused.stderr
