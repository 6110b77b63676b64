"""Templates of critic and reflector: what they lack is named, all of it, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.guide.templates import CriticTemplate, ReflectionTemplate, TemplateError

SHIPPED = Path(__file__).parents[3] / "configs" / "guide"


def test_the_shipped_templates_can_be_used() -> None:
    assert CriticTemplate.read(SHIPPED / "critic.txt").text and ReflectionTemplate.read(SHIPPED / "reflection.txt").text


@pytest.mark.parametrize(
    "removed", ["{bundle}", "{max_operations}", "{experiences}", "{contrast}", "upsert", "remove", "merge"]
)
def test_what_a_reflection_template_lacks_is_named(tmp_path: Path, removed: str) -> None:
    path = tmp_path / "mine.txt"
    path.write_text((SHIPPED / "reflection.txt").read_text().replace(removed, "").replace(f"{removed}d", ""))
    with pytest.raises(TemplateError, match=f"mine.txt: it lacks .*{removed}"):
        ReflectionTemplate.read(path)


def test_all_that_a_critic_template_lacks_is_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("{mission} {focus} {experiences} {ticket} {candidate} {summary_max_chars}")
    with pytest.raises(
        TemplateError, match=r"it lacks the placeholder \{label\}, the placeholder \{critique_max_chars\}$"
    ):
        CriticTemplate.read(path)


def test_a_file_that_is_no_template_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"\xe9")
    (tmp_path / "long.txt").write_text("x" * 20_001)
    (tmp_path / "huge.txt").write_text("x" * 80_001)
    for name, said in (
        ("none.txt", "No such file"),
        ("latin.txt", "UTF-8"),
        ("long.txt", "20,001"),
        ("huge.txt", "more than 80,000 bytes"),
        (".", "no regular file"),
        ("/dev/zero", "no regular file"),
    ):
        with pytest.raises(TemplateError, match=said) as error:
            CriticTemplate.read(tmp_path / name)
        assert "\n" not in str(error.value)


def test_a_mission_with_a_chinese_focus_takes_the_chinese_file_beside_it_which_is_checked_too(tmp_path: Path) -> None:
    for kind, name in ((CriticTemplate, "critic"), (ReflectionTemplate, "reflection")):
        read = kind.read(SHIPPED / f"{name}.txt")
        assert "任务" in read.text_for("检查线缆。") and "任务" not in read.text_for("Whether cables are tied.")
        (tmp_path / f"{name}.txt").write_text(read.text)
        assert kind.read(tmp_path / f"{name}.txt").text_for("检查线缆。") == read.text
        (tmp_path / f"{name}.zh.txt").write_text("任务")
        with pytest.raises(TemplateError, match=rf"{name}\.zh\.txt: it lacks the placeholder"):
            kind.read(tmp_path / f"{name}.txt")
