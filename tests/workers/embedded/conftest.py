"""The embedded target as a real process, shared by all tests that need one, and a folder for an embedded farm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from embedded_server import CLUSTERING, CLUSTERS, TargetServer, serving

from tasks.gpu.processor import SGLANG, render_file
from workers.embedded import farm as control
from workers.embedded.models import embedded_model


@pytest.fixture(scope="session")
def model_folder() -> Path:
    return embedded_model()


@pytest.fixture(scope="session")
def labels_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labels of SmolLM2's vocabulary: its end token in cluster 0, the rest spread by their id."""
    folder = tmp_path_factory.mktemp("labels")
    labels = (np.arange(49152) % (CLUSTERS - 1) + 1).astype(np.uint8)
    labels[2] = 0
    np.save(folder / f"{CLUSTERING}.npy", labels)
    return folder


@pytest.fixture(scope="session")
def processor_file(labels_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated processor with which the server is started."""
    file = tmp_path_factory.mktemp("processor") / "processor_best.py"
    deltas = {str(cluster): delta for cluster, delta in enumerate((-1.0, 3.0, 0.0, -2.0, 0.5, 0.0))}
    file.write_text(render_file(SGLANG, deltas, np.load(labels_folder / f"{CLUSTERING}.npy"), CLUSTERING, []))
    return file


@pytest.fixture(scope="session")
def target_server(
    model_folder: Path, labels_folder: Path, processor_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TargetServer]:
    log = tmp_path_factory.mktemp("target") / "requests.jsonl"
    with serving(model_folder, labels_folder, log, "--processor", str(processor_file)) as server:
        yield server


@pytest.fixture
def farm_folder(tmp_path: Path) -> Iterator[Path]:
    """For a farm, which is stopped afterwards."""
    yield tmp_path / "farm"
    control.down(tmp_path / "farm")
