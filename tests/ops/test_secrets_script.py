"""ops/secrets.sh makes what is missing, once, and nothing that others can read or guess."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "ops" / "secrets.sh"
PROFILES = "COMPOSE_PROFILES=gpu\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "ops").mkdir()
    shutil.copy(SCRIPT, tmp_path / "ops")
    (tmp_path / ".env").write_text(PROFILES)
    return tmp_path


def run(checkout: Path, **environment: str) -> str:
    done = subprocess.run(
        ["sh", "ops/secrets.sh"], cwd=checkout, capture_output=True, text=True, check=True,
        env={"PATH": os.environ["PATH"], **environment},
    )  # fmt: skip
    return done.stdout


def contents(checkout: Path) -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in sorted((checkout / "secrets").glob("*/*"))}


def test_passwords_are_long_unlike_and_made_once_unless_they_were_removed_or_cut_short(checkout: Path) -> None:
    shown = run(checkout)
    before, password = contents(checkout), checkout / "secrets" / "broker" / "valkey_password"
    assert len(before["valkey_password"]) == len(before["grafana_password"]) == 48
    assert before["valkey_password"] != before["grafana_password"]
    assert not [secret for secret in before.values() if secret and secret in shown], "a container's log keeps it"
    # The folder is for its owner; what is in it is for the users of containers too.
    assert stat.S_IMODE((checkout / "secrets").stat().st_mode) == 0o700
    run(checkout, OPENAI_API_KEY="sk-another")
    assert (contents(checkout), (checkout / ".env").read_text()) == (before, PROFILES)
    password.unlink()
    run(checkout)
    after = contents(checkout)
    assert {name for name in before if before[name] != after[name]} == {"valkey_password"}
    password.write_text("")
    run(checkout)
    assert len(contents(checkout)["valkey_password"]) == 48


def test_your_key_is_for_your_endpoint(checkout: Path) -> None:
    for _ in range(2):
        shown = run(checkout, OPENAI_API_KEY="sk-of-mine")
        assert contents(checkout)["openai_api_key"] == "sk-of-mine"
        assert (checkout / ".env").read_text() == PROFILES + "FARM_OPENAI_BASE_URL=https://api.openai.com/v1\n"
        assert "sk-of-mine" not in shown


def test_what_root_makes_belongs_to_the_owner_of_the_clone(checkout: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(checkout / "ops" / "secrets.sh", 4321, 4322)
    (checkout / "data").mkdir()
    os.chown(checkout / "data", 99, 99)
    run(checkout)
    made = [checkout / "secrets", *(checkout / "secrets").rglob("*"), checkout / "outputs"]
    assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(4321, 4322)}
    assert (checkout / "data").stat().st_uid == 99, "somebody's own choice stays"
