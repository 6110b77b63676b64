"""The kept verdicts of a model: what a kill leaves, and what is refused."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.output import OutputError
from orchestrator.runs.kept_verdicts import KeptVerdicts, partial_path
from tasks.models import Verdict

VERDICT = Verdict(is_correct=True, stage=2, confidence=1.0, category="text", reasoning="It agrees.")
ROOT = Path(__file__).parents[3]


def test_verdicts_are_found_by_their_keys_also_by_the_next_process(tmp_path: Path) -> None:
    path = partial_path(tmp_path / "out.jsonl")
    kept = KeptVerdicts(path)
    kept.put("a", VERDICT)
    assert (kept.get("a"), kept.get("b"), len(kept)) == (VERDICT, None, 1)
    kept.close()
    assert KeptVerdicts(path).get("a") == VERDICT


def test_what_was_committed_outlives_a_kill(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from orchestrator.runs import kept_verdicts as k\n"
        "from tasks.models import Verdict\nk.COMMIT_EVERY_S = 0.0\nkept = k.KeptVerdicts(Path(sys.argv[1]))\n"
        "kept.put('a', Verdict(True, 2, 1.0, 'text', 'It agrees.'))\nos.kill(os.getpid(), 9)"
    )
    path = tmp_path / "out.partial"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script, str(path)], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert KeptVerdicts(path).get("a") == VERDICT


def test_a_verdict_that_was_damaged_is_refused_with_the_name_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "out.partial"
    kept = KeptVerdicts(path)
    kept.put("a", VERDICT)
    kept.close()
    with sqlite3.connect(path) as database:
        database.execute("UPDATE verdicts SET verdict = replace(verdict, 'true', 'false')")
    with pytest.raises(OutputError, match=r"out\.partial cannot be used: its checksum is wrong.*; remove it to have"):
        KeptVerdicts(path).get("a")
