"""The alerts: each one has a test of its own, and Prometheus' own tools, where they are installed, run these tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "ops" / "prometheus"


def test_each_alert_has_a_test_in_which_it_fires() -> None:
    alerts = {rule["alert"] for group in read("alerts.yml")["groups"] for rule in group["rules"]}
    cases = [case for test in read("alerts_test.yml")["tests"] for case in test["alert_rule_test"]]
    assert {case["alertname"] for case in cases if case["exp_alerts"]} == alerts


@pytest.mark.parametrize(
    "arguments",
    [("check", "config", "prometheus.yml"), ("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")],
    ids="-".join,
)
def test_promtool_finds_no_fault(arguments: tuple[str, ...]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool here; Debian's package prometheus has it")
    done = subprocess.run([promtool, *arguments], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def read(name: str) -> dict[str, list[dict[str, list[dict[str, object]]]]]:
    found: dict[str, list[dict[str, list[dict[str, object]]]]] = yaml.safe_load((FOLDER / name).read_text())
    return found
