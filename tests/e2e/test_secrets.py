"""A key is in no file, and the report names what answered, whatever model the settings name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil
import pytest
from rules_server import RulesServer
from run_folder import ROOT, RunFolder, environment, finish, wait_until

KEY = "sk-e2e-0123456789-never-printed"


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
def test_a_key_is_in_no_file_of_a_run_and_the_report_names_the_rules_of_an_external_endpoint(
    run_folder: RunFolder, rules: RulesServer
) -> None:
    # Given a key, and the address of an external endpoint that answers by rules
    rules.key = KEY
    variables = {**environment(), "OPENAI_API_KEY": KEY}
    models = {"REFLECTOR_MODEL": "a-large-model", "JUDGE_MODEL": "a-small-model"}
    run = subprocess.Popen(
        run_folder.command(NGEN="1", **rules.options, **models), cwd=ROOT, env=variables, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    wait_until(lambda: (run_folder.output / "reflector_prompts").exists() or run.poll() is not None, "a prompt")
    assert KEY not in command_lines()
    done = finish(run)
    assert done.returncode == 0, done.stdout
    # Then the key is not in the store's file on disk, the logs, the prompts or the report
    assert list(run_folder.farm.rglob("*.aof*")), "the store wrote its data to disk"
    assert files_with(run_folder.folder, KEY) == []
    assert KEY not in done.stdout
    # And the report names the rules, not the models of the settings
    report = (run_folder.output / "report.txt").read_text()
    assert report.count("rules of the embedded endpoint") == 2
    assert "a-large-model" not in report and "a-small-model" not in report
