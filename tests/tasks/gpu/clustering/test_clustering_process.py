"""Clustering in a process of its own: it reports, it fails in a sentence, and it never outlives its parent."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import cluster_families as families
import psutil
import pytest

from tasks.gpu.clustering import ClusteringError, load_clustering, run_clustering
from tasks.gpu.clustering.pipeline import collect_inputs
from tasks.models import Clusters

PARENT = """
import dataclasses, json, psutil, signal, sys
from tasks.gpu.clustering import run_clustering
from tasks.models import Clusters

def held(stage, done, total):
    print(psutil.Process().children()[0].pid, flush=True)
    signal.pause()

tokenizer, embedder, folder = sys.argv[1:]
run_clustering(tokenizer, Clusters(folder, "minilm", 8, 4, 3, 64, "cpu"), embedder, held)
"""


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    folder = tmp_path / "tokenizer"
    families.qwen().save_pretrained(folder)
    return folder


def settings(folder: Path) -> Clusters:
    return Clusters(str(folder), "minilm", components=8, count=4, seed=3, batch_size=64, device="cpu")


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


def test_it_reports_each_stage_and_returns_the_folder(tokenizer: Path, tmp_path: Path) -> None:
    # when a vocabulary is clustered in a process
    told: list[tuple[str, int, int]] = []
    before = children()
    folder = run_clustering(
        tokenizer, settings(tmp_path / "out"), families.minilm_folder(), lambda *step: told.append(step)
    )
    # then its stages came through in order, the folder is named by the content, and no process is left
    assert list(dict.fromkeys(stage for stage, _, _ in told)) == ["decode", "embed", "reduce", "cluster", "write"]
    assert told[-1] == ("write", 466, 466)
    expected = collect_inputs(families.qwen(), settings(tmp_path), families.minilm_folder()).hash()
    assert folder == tmp_path / "out" / expected
    assert load_clustering(folder).hash == expected
    assert children() == before


def test_it_fails_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ClusteringError, match=r'^the tokenizer "/no/such/tokenizer" .* no such folder$'):
        run_clustering("/no/such/tokenizer", settings(tmp_path / "out"), families.minilm_folder())


def test_the_command_line_fails_with_one_line_and_exit_1(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tasks.gpu.clustering",
        "--tokenizer=/no/such",
        "--embedder=x",
        f"--folder={tmp_path}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == ['the tokenizer "/no/such" cannot be loaded: there is no such folder']


def test_an_interrupted_call_stops_its_process(tokenizer: Path, tmp_path: Path) -> None:
    # given a caller that gives up at the first sign of progress, as Ctrl+C would make it
    before = children()
    running: set[int] = set()

    def give_up(stage: str, done: int, total: int) -> None:
        running.update(children() - before)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_clustering(tokenizer, settings(tmp_path / "out"), families.minilm_folder(), give_up)
    # then the process that was running is gone
    assert len(running) == 1
    assert not psutil.pid_exists(running.pop())
    assert not (tmp_path / "out").exists()


def test_it_dies_with_a_parent_that_is_killed(tokenizer: Path, tmp_path: Path) -> None:
    # given a parent that is waiting for its clustering
    arguments = [str(tokenizer), str(families.minilm_folder()), str(tmp_path / "out")]
    with subprocess.Popen([sys.executable, "-c", PARENT, *arguments], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        # when the parent is killed with no chance to clean up
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        # then the kernel ends the clustering
        child.wait(timeout=10)
    assert not child.is_running()
