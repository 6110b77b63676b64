"""Templates of critic and reflector: what they lack is named, also of the Chinese file beside one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.guide.templates import CriticTemplate, ReflectionTemplate

SHIPPED = Path(__file__).parents[3] / "configs" / "guide"


@pytest.mark.parametrize("removed", ["{bundle}", "{max_operations}", "{experiences}", "upsert", "remove", "merge"])
def test_what_a_reflection_template_lacks_is_named(tmp_path: Path, removed: str) -> None:
    path = tmp_path / "mine.zh.txt"
    path.write_text((SHIPPED / "reflection.txt").read_text().replace(removed, "").replace(f"{removed}d", ""))
    with pytest.raises(ValueError, match=f"mine.zh.txt: .*{removed}"):
        ReflectionTemplate.read(path)
    (tmp_path / "mine.txt").write_bytes((SHIPPED / "reflection.txt").read_bytes())
    with pytest.raises(ValueError, match=f"mine.zh.txt: .*{removed}"):
        ReflectionTemplate.read(tmp_path / "mine.txt")


def test_a_file_that_is_no_template_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"\xe9")
    (tmp_path / "huge.txt").write_text("x" * 80_001)
    for name in ("none.txt", "latin.txt", "huge.txt", "/dev/zero"):
        with pytest.raises(ValueError, match=name):
            CriticTemplate.read(tmp_path / name)
