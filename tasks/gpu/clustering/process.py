"""Clustering in a process of its own, so that the worker has its memory back afterwards.

This side imports nothing heavy.  The other side is `python -m tasks.gpu.clustering`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

import tasks
from tasks import die_with_parent
from tasks.gpu.clustering.artifacts import ClusteringError
from tasks.models import Clusters, Sides

_GRACE_S = 5.0
Progress = Callable[[str, int, int], None]
"""Called as `(stage, done, total)`, counts in tokens; stages: decode, embed, reduce, cluster, write."""


def no_progress(stage: str, done: int, total: int) -> None:
    """A `Progress` that does nothing."""


def run_clustering(
    tokenizer: str | Path,
    clusters: Clusters,
    embedder: str | Path,
    on_progress: Progress = no_progress,
    environment: Mapping[str, str] | None = None,
    sides: Sides | None = None,
) -> Path:
    """Cluster the vocabulary of a tokenizer (a folder or a Hugging Face id); return the folder of the clustering.

    `environment` is added to this process's own.  Clusters by waste need `sides` and no embedder, which may be "".

    The process dies with its parent (on Linux, even with one that is killed) and is stopped when this call is
    interrupted, also by `on_progress` raising.  Call it from a thread that lives until it returns.
    Raises: ClusteringError with the process's own sentence.
    """
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as answers:
        if sides is not None:
            answers.write(json.dumps(dataclasses.asdict(sides)).encode())
            answers.seek(0)
        process = _start(tokenizer, clusters, embedder, (answers, errors), environment or {})
        try:
            folder = _follow(process, on_progress)
            code = process.wait()
        finally:
            _stop(process)
        if code != 0 or folder is None:
            raise ClusteringError(_reason(code, errors))
    return folder


def _start(
    tokenizer: str | Path,
    clusters: Clusters,
    embedder: str | Path,
    streams: tuple[IO[bytes], IO[bytes]],
    environment: Mapping[str, str],
) -> subprocess.Popen[str]:
    """`streams` are its standard input and its standard error."""
    options = {
        "by": clusters.by,
        "buckets": clusters.buckets,
        "tokenizer": tokenizer,
        "embedder": embedder,
        "folder": clusters.folder,
        "components": clusters.components,
        "count": clusters.count,
        "seed": clusters.seed,
        "batch-size": clusters.batch_size,
        "device": clusters.device,
    }
    # An argument for each id: Linux limits a single argument to 128 kB.
    discovered = ["--discovered", *map(str, clusters.discovered)] if clusters.discovered else []
    # So that the child finds this package where it is not installed and the working folder is another.
    package = Path(str(tasks.__file__)).resolve().parent.parent
    path = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH", "")]))
    return subprocess.Popen(
        [
            *(sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid()), str(int(signal.SIGKILL))),
            *(sys.executable, "-m", "tasks.gpu.clustering"),
            *(f"--{name}={value}" for name, value in options.items()),
            *discovered,
        ],
        stdin=streams[0],
        stdout=subprocess.PIPE,
        stderr=streams[1],
        text=True,
        env={**os.environ, **environment, "PYTHONPATH": path},
        # Ctrl+C in a terminal then reaches the parent alone, which stops the child.
        start_new_session=True,
    )


def _follow(process: subprocess.Popen[str], on_progress: Progress) -> Path | None:
    """Forward the progress; the folder that the last line names, or None when there was no such line."""
    folder: Path | None = None
    assert process.stdout is not None
    for line in process.stdout:
        message = json.loads(line)
        if "stage" in message:
            on_progress(str(message["stage"]), int(message["done"]), int(message["total"]))
        else:
            folder = Path(message["folder"])
    return folder


def _stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _reason(code: int, errors: IO[bytes]) -> str:
    if code < 0:
        return f"the clustering process was ended by signal {-code}; if no one sent it, memory ran out"
    errors.seek(0)
    lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"the clustering process ended with code {code} without a message"
