"""The prompts that settings name: all that cannot be used is told at once, and a file is known by its content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dotted_values import with_value

from orchestrator.guide.prompt_files import Templates
from orchestrator.guide.settings import guide_settings_from
from orchestrator.settings import SettingsError


def test_all_files_that_cannot_be_used_are_told_at_once(values: dict[str, Any], tmp_path: Path) -> None:
    for name in ("critic.prompt_path", "reflection.prompt_path"):
        values = with_value(values, name, str(tmp_path / "none.txt"))
    with pytest.raises(SettingsError) as refused:
        Templates.read(guide_settings_from(values))
    assert [line.partition(":")[0] for line in refused.value.problems] == [
        "critic.prompt_path",
        "reflection.prompt_path",
    ]


def test_a_critic_that_is_off_needs_no_file_and_has_no_hash(values: dict[str, Any]) -> None:
    settings = guide_settings_from(
        with_value(with_value(values, "critic.enabled", False), "critic.prompt_path", "none")
    )
    assert Templates.read(settings).critic is None
    assert list(Templates.read(settings).hashes()) == ["reflection.prompt_path"]


def test_the_hash_is_of_the_content_also_of_the_chinese_file_beside_it(values: dict[str, Any], tmp_path: Path) -> None:
    settings = guide_settings_from(values)
    own = tmp_path / "mine.txt"
    own.write_bytes(Path(settings.critic.prompt_path).read_bytes())
    moved = guide_settings_from(with_value(values, "critic.prompt_path", str(own)))
    (tmp_path / "mine.zh.txt").write_bytes(Path("configs/guide/critic.zh.txt").read_bytes())
    known = Templates.read(moved).hashes()
    assert known == Templates.read(settings).hashes()
    (tmp_path / "mine.zh.txt").write_bytes(own.read_bytes())
    assert Templates.read(moved).hashes() != known
