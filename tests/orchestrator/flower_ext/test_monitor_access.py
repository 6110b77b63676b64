"""Nobody looks without a user name and a password, and there is none that everybody knows."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from flower_process import command, environment

from orchestrator.flower_ext.access import NoAccess, credentials


def test_user_and_password_come_from_the_environment_or_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("ann:a long password, bob:another one\n")
    assert credentials({"FLOWER_BASIC_AUTH": "ann:longenough"}) == ["ann:longenough"]
    assert credentials({"FLOWER_BASIC_AUTH_FILE": str(secret)}) == ["ann:a long password", "bob:another one"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "neither FLOWER_BASIC_AUTH nor FLOWER_BASIC_AUTH_FILE"),
        ({"FLOWER_BASIC_AUTH": " , "}, "neither FLOWER_BASIC_AUTH nor FLOWER_BASIC_AUTH_FILE"),
        ({"FLOWER_BASIC_AUTH": "admin"}, "no user name and password"),
        ({"FLOWER_BASIC_AUTH": ":longenough"}, "no user name and password"),
        ({"FLOWER_BASIC_AUTH": "admin:admin"}, "shorter than 8 characters"),
        ({"FLOWER_BASIC_AUTH": "ann:longenough,bob:short"}, "entry 2 of FLOWER_BASIC_AUTH"),
        ({"FLOWER_BASIC_AUTH": "ann:größergleich"}, "ASCII"),
        ({"FLOWER_BASIC_AUTH_FILE": "/nowhere/secret"}, "/nowhere/secret cannot be read"),
    ],
)
def test_what_lets_nobody_in_is_told_without_telling_the_password(given: dict[str, str], told: str) -> None:
    with pytest.raises(NoAccess) as refused:
        credentials(given)
    assert told in str(refused.value)
    assert "short," not in str(refused.value)
    assert "größergleich" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"FLOWER_BASIC_AUTH": "ann:longenough"}, "no farm is up"),
        ({"FLOWER_BASIC_AUTH": "admin"}, "FLOWER_BASIC_AUTH"),
        (
            {"FLOWER_BASIC_AUTH": "ann:longenough", "WHETSTONE_REDIS_URL": "http://x"},
            "WHETSTONE_REDIS_URL: not a redis",
        ),
    ],
)
def test_the_command_refuses_to_start_and_says_why(given: dict[str, str], told: str) -> None:
    done = subprocess.run(command(), env={**environment(), **given}, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_history_that_another_user_could_have_written_is_not_loaded(valkey_url: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "history.dat").write_bytes(b"a pickle")
    (tmp_path / "data" / "history.dat").chmod(0o666)
    given = {"FLOWER_BASIC_AUTH": "ann:longenough", "WHETSTONE_REDIS_URL": valkey_url}
    started = [*command(), "--port", "0", "--data", str(tmp_path / "data")]
    done = subprocess.run(started, env={**environment(), **given}, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "history.dat: it is no file that only this user may write" in done.stderr
    assert len(done.stderr.splitlines()) == 1
