"""A file that is larger than any use needs is refused where it enters."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.settings import SettingsError
from orchestrator.settings.documents import read_mapping
from tasks.common import validation as limits
from tasks.common.files import FileTooLarge, read_limited


def test_files_that_are_read_whole_have_a_largest_size(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_bytes(b"#" * (limits.SETTINGS_BYTES + 1))
    with pytest.raises(SettingsError, match="more than 1,048,576 bytes"):
        read_mapping(path)
    assert read_limited(path, limits.SETTINGS_BYTES + 1) == path.read_bytes()
    with pytest.raises(FileTooLarge):
        read_limited(Path("/dev/zero"), 1000, pipes=True)
