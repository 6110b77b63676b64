"""`orchestrator judge` as a process: a verdict for every row in order, or nothing at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from orchestrator import exit_status
from orchestrator.commands import judge as judge_command
from workers.embedded.endpoint import ENDPOINT_KEY_VARIABLE

NUMBER = {"question": "Capital expenditure in USD millions?", "gold": "$1577.00", "answer": "It was $1,577 million."}
NEAR = NUMBER | {"answer": "It was $1,700 million."}
PROSE = {"question": "Is it capital intensive?", "gold": "No, it is not.", "answer": "No, not at all."}
WRONG = PROSE | {"answer": "Yes, it is."}
EMPTY = PROSE | {"answer": " "}
ROOT = Path(__file__).parents[3]
UNLIMITED = ("--config", str(ROOT / "configs" / "embedded.config"))  # calls that do not wait for their tokens' minute


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Any]:
    """Starts the real endpoint; gives its address and the file with its calls."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> tuple[str, Path]:
        log = tmp_path / "calls.jsonl"
        command = [sys.executable, "-m", "workers.embedded.endpoint", "--port", "0", "--calls-log", str(log), *options]
        environment = {**os.environ, ENDPOINT_KEY_VARIABLE: "k"}
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))
        assert started[-1].stdout is not None
        return started[-1].stdout.readline().split()[-1], log

    yield start
    for process in started:
        process.terminate()
        process.wait(10)


def judge(folder: Path, rows: list[dict[str, str]] | bytes, *options: str, **environment: str) -> Any:
    """Run the command on these rows; without a key unless one is given."""
    path = folder / "rows.jsonl"
    path.write_bytes(rows if isinstance(rows, bytes) else "\n".join(map(json.dumps, rows)).encode())
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    command = [sys.executable, "-m", "orchestrator", "judge", str(path), *options]
    return subprocess.run(command, env=kept | environment, capture_output=True, text=True, check=False, timeout=60)


def refusal(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> str:
    """What the command says in this process, of rows that it refuses before it begins."""
    assert judge_command.run(judge_command.make_parser().parse_args([str(path), *options])) == exit_status.WRONG
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err


def verdicts(text: str) -> list[tuple[bool | None, int]]:
    rows = [json.loads(line) for line in text.splitlines()]
    assert all(set(row) == {"is_correct", "stage", "reasoning"} and row["reasoning"] for row in rows)
    return [(row["is_correct"], row["stage"]) for row in rows]


def test_stage_1_alone_calls_nobody_and_leaves_open_what_it_must(tmp_path: Path) -> None:
    # given a key and an address at which nobody is
    done = judge(
        tmp_path,
        [PROSE, NUMBER, EMPTY, NEAR],
        *("--stage", "1"),
        OPENAI_API_KEY="k",
        OPENAI_BASE_URL="http://127.0.0.1:9/v1",
    )
    # then numbers are decided, and what needs a model is left open
    assert done.returncode == 0, done.stderr
    assert verdicts(done.stdout) == [(None, 1), (True, 1), (False, 1), (None, 1)]
    assert "4 rows: 1 correct, 1 wrong, 2 left open" in done.stderr


def test_the_tolerance_is_the_one_that_was_asked_for(tmp_path: Path) -> None:
    assert verdicts(judge(tmp_path, [NEAR], "--stage", "1", "--tolerance", "0.1").stdout) == [(True, 1)]
    refused = judge(tmp_path, [NEAR], "--stage", "1", "--tolerance", "1.5")
    assert (refused.returncode, refused.stdout) == (1, "")


def test_the_same_texts_are_asked_once_and_every_row_has_its_verdict(tmp_path: Path, endpoint: Any) -> None:
    # given an endpoint, and rows that are equal
    url, log = endpoint()
    rows = [PROSE, WRONG, NUMBER, PROSE, PROSE, WRONG, EMPTY]
    # when they are judged into a file
    output = tmp_path / "out" / "verdicts.jsonl"
    done = judge(
        tmp_path,
        rows,
        *("--endpoint", "openai", *UNLIMITED, "--output", str(output)),
        OPENAI_API_KEY="k",
        OPENAI_BASE_URL=url,
    )
    # then there is a verdict for each, in order, of two calls
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert verdicts(output.read_text()) == [
        *[(True, 2), (False, 2), (True, 1), (True, 2)],
        *[(True, 2), (False, 2), (False, 1)],
    ]
    assert len(log.read_text().splitlines()) == 2
    assert "7 rows: 4 correct, 3 wrong (2 by stage 1, 5 by stage 2)" in done.stderr


def test_rules_judge_and_go_although_a_key_is_exported(tmp_path: Path, endpoint: Any) -> None:
    # given a key and an address of an endpoint, and nothing that chooses it
    url, log = endpoint()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = judge(tmp_path, [PROSE, WRONG], TMPDIR=str(temporary), OPENAI_API_KEY="k", OPENAI_BASE_URL=url)
    # then rules judge, announced before anything is asked, and the endpoint gets no call
    assert verdicts(done.stdout) == [(True, 2), (False, 2)], done.stderr
    assert done.stderr.startswith("judge: rules of the embedded endpoint (no language model); cost: free\n")
    assert not log.exists() or log.read_text() == ""
    # and nothing of it is left
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(temporary) in " ".join(p.info["cmdline"] or [])]
    assert list(temporary.iterdir()) == []


def test_a_model_judges_when_the_option_says_so_and_within_the_budget(tmp_path: Path, endpoint: Any) -> None:
    url, log = endpoint()
    rows = [PROSE | {"answer": f"No, not at all: {number}."} for number in range(9)]
    prices = [part for kind in ("prompt", "cached", "completion") for part in (f"--price-{kind}", "100")]
    there = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": url}
    # given a budget that does not suffice, then no more is called than it allows, and nothing is written
    done = judge(tmp_path, rows, "--endpoint", "openai", *UNLIMITED, *prices, "--budget", "0.3", **there)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.splitlines()[0].endswith(f" at {url}; cost: at most $0.3000")
    assert "BudgetSpent" in done.stderr and len(log.read_text().splitlines()) < len(rows)
    # and what was paid until then is said
    assert f"{len(log.read_text().splitlines())} calls, " in done.stderr and " of $0.30" in done.stderr
    # and a budget without prices cannot be kept
    refused = judge(tmp_path, rows, "--endpoint", "openai", *UNLIMITED, "--budget", "2", **there)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "--budget: needs --price-prompt, --price-cached and --price-completion" in refused.stderr
    # and without a key no rules take the place of the model
    refused = judge(tmp_path, rows, "--endpoint", "openai")
    assert (refused.returncode, refused.stdout) == (2, "") and "OPENAI_API_KEY" in refused.stderr


def test_what_a_budget_has_paid_is_kept_and_the_same_command_goes_on(tmp_path: Path, endpoint: Any) -> None:
    url, log = endpoint()
    rows = [PROSE | {"answer": f"No, not at all: {number}."} for number in range(9)]
    prices = [part for kind in ("prompt", "cached", "completion") for part in (f"--price-{kind}", "100")]
    output = tmp_path / "verdicts.jsonl"
    partial = tmp_path / "verdicts.jsonl.partial"
    chosen = ("--endpoint", "openai", *UNLIMITED, *prices, "--output", str(output))
    there = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": url}
    # given a budget that does not suffice, then the verdicts until then are kept
    done = judge(tmp_path, rows, *chosen, "--budget", "0.3", **there)
    assert done.returncode == 2 and not output.exists(), done.stderr
    assert f"the verdicts of the model until then are in {partial}: the same command goes on" in done.stderr
    paid = len(log.read_text().splitlines())
    assert 0 < paid < len(rows)
    # and a damaged one is refused by its name
    whole = partial.read_bytes()
    partial.write_bytes(b"no database at all, but long enough for one" * 100)
    refused = judge(tmp_path, rows, *chosen, "--budget", "5", **there)
    assert refused.returncode == 1 and f"{partial} cannot be used: " in refused.stderr, refused.stderr
    partial.write_bytes(whole)
    # when the same command has money again, then only the others are asked
    done = judge(tmp_path, rows, *chosen, "--budget", "5", **there)
    assert done.returncode == 0 and f"going on with {paid} verdicts of {partial}" in done.stderr, done.stderr
    assert len(log.read_text().splitlines()) == len(rows)
    assert verdicts(output.read_text()) == [(True, 2)] * len(rows)
    assert not partial.exists()


def test_an_output_that_is_an_input_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # given the rows by their path, by a link, by a hard link, and a configuration
    rows, config = tmp_path / "rows.jsonl", tmp_path / "x.config"
    rows.write_text(json.dumps(NUMBER))
    config.write_text("")
    (tmp_path / "link").symlink_to(rows)
    (tmp_path / "hard").hardlink_to(rows)
    (tmp_path / "out.partial").hardlink_to(rows)
    for output in (rows, tmp_path / "." / "rows.jsonl", tmp_path / "link", tmp_path / "hard", tmp_path / "out"):
        said = refusal(capsys, rows, "--stage", "1", "--output", str(output))
        assert "is the same file as the rows to judge" in said
    assert rows.read_text() == json.dumps(NUMBER)
    said = refusal(capsys, rows, "--stage", "1", "--config", str(config), "--output", str(config))
    assert "is the same file as --config" in said and config.read_text() == ""


def test_a_judge_that_cannot_be_reached_is_an_error_and_no_verdict(tmp_path: Path, endpoint: Any) -> None:
    # given an endpoint whose every reply is cut
    url, _ = endpoint("--faults", "verdict:truncated:*")
    output = tmp_path / "verdicts.jsonl"
    chosen = ("--endpoint", "openai", *UNLIMITED, "--output", str(output))
    done = judge(tmp_path, [NUMBER, PROSE], *chosen, OPENAI_API_KEY="k", OPENAI_BASE_URL=url)
    # then nothing is written, not even what stage 1 decided
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert not output.exists()


def test_malformed_rows_are_told_all_at_once_and_nothing_is_written(tmp_path: Path) -> None:
    rows = b'{"question": "a", "gold": "b", "answer": "c"}\n{"question": 1}\nnonsense\n'
    output = tmp_path / "verdicts.jsonl"
    output.write_text("from before\n")
    done = judge(tmp_path, rows, "--stage", "1", "--output", str(output))
    assert (done.returncode, done.stdout) == (1, "")
    assert "line 2:" in done.stderr
    assert "line 3:" in done.stderr
    assert "Traceback" not in done.stderr
    assert output.read_text() == "from before\n"


def test_settings_come_from_a_config(tmp_path: Path) -> None:
    # given a configuration with a tolerance of its own
    config = tmp_path / ".config"
    text = (ROOT / "configs" / "embedded.config").read_text()
    config.write_text(
        text.replace('="configs/', f'="{ROOT}/configs/')
        + f'CONFIG_JUDGE_TOLERANCE="0.1"\nCONFIG_DATA_PATH="{ROOT}/configs/data/sample_questions.jsonl"\n'
    )
    assert verdicts(judge(tmp_path, [NEAR], "--stage", "1", "--config", str(config)).stdout) == [(True, 1)]
    # and one that does not load is refused before anything is judged
    config.write_text("CONFIG_NONSENSE=1\n")
    refused = judge(tmp_path, [NEAR], "--config", str(config))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "CONFIG_NONSENSE" in refused.stderr


def test_exact_numbers_are_judged_without_an_endpoint(tmp_path: Path) -> None:
    rows = [{"question": "How many?", "gold": "72", "answer": answer} for answer in ("So 72.", "70, or 71", "none")]
    done = judge(tmp_path, rows, "--judge", "exact_number")
    assert done.returncode == 0, done.stderr
    assert verdicts(done.stdout) == [(True, 1), (False, 1), (False, 1)]
    assert "judge: exact final number (no language model); cost: free" in done.stderr
    refused = judge(tmp_path, [PROSE], "--judge", "exact_number")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "has no number; grade this data by another judge; nothing was written" in refused.stderr


def test_a_function_of_the_user_judges_and_one_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "own_judges.py").write_text(
        'print("loading")\ndef same(question, gold, answer):\n    print("judging")\n    return gold == answer\n'
    )
    there = {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
    done = judge(tmp_path, [PROSE, PROSE | {"answer": PROSE["gold"]}], "--judge", "own_judges:same", **there)
    assert verdicts(done.stdout) == [(False, 1), (True, 1)], done.stderr
    assert "loading\n" in done.stderr and "judging\n" in done.stderr  # and so standard output has verdicts alone
    for wrong, told in (
        (["--judge", "own_judges:other"], "cannot be loaded"),
        (["--judge", "own_judges:same", "--stage", "1"], "only the judge 'three_stages' has stages"),
    ):
        refused = judge(tmp_path, [PROSE], *wrong, **there)
        assert (refused.returncode, refused.stdout) == (1, "") and told in refused.stderr


@pytest.mark.parametrize("output", [".", "/"])
def test_an_output_that_is_a_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str) -> None:
    said = refusal(capsys, tmp_path / "rows.jsonl", "--stage", "1", "--output", output)
    assert said == f"orchestrator: --output: {output} is a folder; name a file\n"
