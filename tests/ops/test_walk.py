"""The page on operations is a script: its commands are in the syntax of a shell and name services that are there."""

from __future__ import annotations

import re
import runpy
import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
WALK = runpy.run_path(str(ROOT / "ops" / "walk.py"))


def test_only_blocks_for_a_shell_are_run() -> None:
    page = "```sh\nfirst\n```\n\n```text\nneeds a GPU\n```\n\n```sh\nsecond\nthird\n```\n"
    assert WALK["blocks"](page) == ["first\n", "second\nthird\n"]


def test_the_page_is_a_script() -> None:
    commands = WALK["script"](PAGE)
    assert len(WALK["blocks"](PAGE)) > 8
    checked = subprocess.run(["bash", "-n"], input=commands, text=True, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_the_page_names_services_profiles_and_targets_that_are_there() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    said = set(re.findall(r"docker compose .*?\b(worker-[a-z0-9-]+|orchestrator|flower|valkey)\b", PAGE))
    assert said and said <= set(services)
    profiles = {profile for service in services.values() for profile in service.get("profiles", [])}
    assert set(re.findall(r"--profile (\S+)", PAGE)) <= profiles
    made = set(re.findall(r"^(\w+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)) | {"menuconfig"}
    assert set(re.findall(r"`make (\w+)", PAGE)) | set(re.findall(r"^make (\w+)", PAGE, re.MULTILINE)) <= made
