"""A key is where it is used and nowhere else; and who answered is told, whatever the settings ask for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from workplace import ROOT, Workplace, environment, finish, wait_until

KEY = "sk-e2e-0123456789-never-told"


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[str]:
    """The rules, as an endpoint of one's own that somebody else runs."""
    command = [sys.executable, "-m", "workers.embedded.endpoint", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
        process.terminate()
        process.wait(10)


def files_with(folder: Path, text: str) -> list[Path]:
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in paths if text.encode() in path.read_bytes()]


def command_lines() -> str:
    lines = []
    for process in psutil.process_iter():
        try:
            lines.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return "\n".join(lines)


@pytest.mark.long
def test_a_key_is_in_no_file_of_a_run_and_rules_are_named_at_an_address_of_one_s_own(
    workplace: Workplace, endpoint: str
) -> None:
    # Given a key, and an address of one's own behind which the rules answer
    told = {**environment(), "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": endpoint}
    command = workplace.command(NGEN="1", REFLECTOR_MODEL="a-large-model", JUDGE_MODEL="a-small-model")
    run = subprocess.Popen(command, cwd=ROOT, env=told, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_until(lambda: (workplace.output / "reflector_prompts").exists() or run.poll() is not None, "a prompt")
    assert KEY not in command_lines()
    done = finish(run)
    assert done.returncode == 0, done.stdout
    # Then the store's file on disk, the logs, the prompts and the report are without the key
    assert list(workplace.farm.rglob("*.aof*")), "the store wrote everything it was given to its disk"
    assert files_with(workplace.folder, KEY) == []
    assert KEY not in done.stdout
    # And the report names the rules, and no model that was only asked for
    report = (workplace.output / "report.txt").read_text()
    assert report.count("rules of the embedded endpoint") == 2
    assert "a-large-model" not in report and "a-small-model" not in report
