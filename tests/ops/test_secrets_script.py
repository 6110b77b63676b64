"""`make secrets` makes what is missing, once, and nothing that others can read or guess."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "ops" / "secrets.sh"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "ops").mkdir()
    shutil.copy(SCRIPT, tmp_path / "ops")
    return tmp_path


def run(checkout: Path, **environment: str) -> str:
    done = subprocess.run(
        ["sh", "ops/secrets.sh"], cwd=checkout, capture_output=True, text=True, check=True,
        env={"PATH": os.environ["PATH"], **environment},
    )  # fmt: skip
    return done.stdout


def contents(checkout: Path) -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in sorted((checkout / "secrets").iterdir())}


def test_passwords_are_long_and_no_two_are_alike(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    run(checkout)
    made = contents(checkout)

    assert len(made["valkey_password"]) == len(made["grafana_password"]) == 48
    assert made["valkey_password"] != made["grafana_password"]
    # The folder is for its owner; the files themselves are for the user of a container too.
    assert stat.S_IMODE((checkout / "secrets").stat().st_mode) == 0o700


def test_what_is_there_stays(checkout: Path) -> None:
    run(checkout)
    before, settings = contents(checkout), (checkout / ".env").read_text()
    (checkout / ".env").write_text(settings + "WHETSTONE_CONFIG=mine\n")

    run(checkout, OPENAI_API_KEY="sk-another")

    assert contents(checkout) == before
    assert (checkout / ".env").read_text() == settings + "WHETSTONE_CONFIG=mine\n"


def test_without_a_key_rules_answer_and_with_one_openai(checkout: Path) -> None:
    run(checkout)
    assert "OPENAI_BASE_URL=http://rules:8000/v1\n" in (checkout / ".env").read_text()

    shutil.rmtree(checkout / "secrets")
    (checkout / ".env").unlink()
    shown = run(checkout, OPENAI_API_KEY="sk-of-mine")

    assert contents(checkout)["openai_api_key"] == "sk-of-mine"
    assert "OPENAI_BASE_URL=\n" in (checkout / ".env").read_text()
    assert "sk-of-mine" not in shown


def test_a_folder_that_an_early_compose_left_makes_way(checkout: Path) -> None:
    (checkout / "secrets" / "valkey_password").mkdir(parents=True)
    run(checkout)
    assert len(contents(checkout)["valkey_password"]) == 48
