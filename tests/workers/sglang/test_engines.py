"""The engines of the target: each name of the settings has its module, and no key is in a command line."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import get_args

import pytest

from tasks.records import EngineName
from workers.sglang.engines import ENGINES

KEY = "key-5f1e"


@pytest.mark.parametrize("name", get_args(EngineName))
def test_every_engine_of_the_settings_keeps_the_key_off_the_command_line(name: str, tmp_path: Path) -> None:
    engine = ENGINES[name]
    arguments, environment = engine.pass_key(KEY, tmp_path / "key.yaml")
    assert not any(KEY in argument for argument in arguments)
    written = [path for path in tmp_path.iterdir() if KEY in path.read_text()]
    assert KEY in environment.values() or written
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in written)
    assert 0 < engine.stop_grace_s < engine.health_s


def test_a_key_file_that_a_killed_worker_left_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "key.yaml"
    file.write_text("api-key: old\n")
    file.chmod(0o644)
    ENGINES["sglang"].pass_key(KEY, file)
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == (f"api-key: {KEY}\n", 0o600)
