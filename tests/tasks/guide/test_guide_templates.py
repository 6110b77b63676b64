"""Templates of critic and reflector: what they lack is named, all of it, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.guide.templates import CriticTemplate, ReflectionTemplate, TemplateError

SHIPPED = Path(__file__).parents[3] / "configs" / "guide"


@pytest.mark.parametrize(
    "removed", ["{bundle}", "{max_operations}", "{experiences}", "{contrast}", "upsert", "remove", "merge"]
)
def test_what_a_reflection_template_lacks_is_named(tmp_path: Path, removed: str) -> None:
    path = tmp_path / "mine.txt"
    path.write_text((SHIPPED / "reflection.txt").read_text().replace(removed, "").replace(f"{removed}d", ""))
    with pytest.raises(TemplateError, match=f"mine.txt: it lacks .*{removed}"):
        ReflectionTemplate.read(path)


def test_a_file_that_is_no_template_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"\xe9")
    (tmp_path / "huge.txt").write_text("x" * 80_001)
    for name, said in (
        ("none.txt", "No such file"),
        ("latin.txt", "utf-8"),
        ("huge.txt", "more than 80,000 bytes"),
        ("/dev/zero", "no regular file"),
    ):
        with pytest.raises(TemplateError, match=said) as error:
            CriticTemplate.read(tmp_path / name)
        assert "\n" not in str(error.value)
