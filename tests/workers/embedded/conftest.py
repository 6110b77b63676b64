"""The embedded target as a real process, shared by all tests that need one, and a folder for an embedded farm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from embedded_server import CLUSTERING, CLUSTERS, TargetServer, serving
from small_model import make_small_model

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
def target_server(labels_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TargetServer]:
    with serving(make_small_model(tmp_path_factory.mktemp("small")), labels_folder) as server:
        yield server


@pytest.fixture
def farm_folder(tmp_path: Path) -> Iterator[Path]:
    """For a farm, which is stopped afterwards."""
    yield tmp_path / "farm"
    control.down(tmp_path / "farm")
