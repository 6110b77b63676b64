"""The prompts of critic and reflector: files that a user may change, checked before anything is asked.

Beside `NAME.txt` there may be a `NAME.zh.txt`, which missions with a Chinese focus take instead: a small model writes
in the language that it is addressed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from tasks.common.files import FileTooLarge, read_limited
from tasks.common.text import missing_placeholders
from tasks.guide.prompting import prompt_language

MOST_BYTES = 80_000


@dataclass(frozen=True)
class Template:
    """A prompt with a `{place}` for each of `PLACES`, which names each of `OPERATIONS`."""

    text: str
    chinese: str | None = None
    PLACES: ClassVar[tuple[str, ...]] = ()
    OPERATIONS: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def read(cls, path: Path) -> Self:
        beside = path.with_name(f"{path.stem}.zh{path.suffix}")
        return cls(cls._checked(path), cls._checked(beside) if beside.exists() else None)

    def text_for(self, focus: str) -> str:
        """The text in the language of a mission's focus, where there is one."""
        return self.chinese if self.chinese is not None and prompt_language(focus) == "zh" else self.text

    @classmethod
    def _checked(cls, path: Path) -> str:
        try:
            text = read_limited(path, MOST_BYTES).decode()
        except (OSError, FileTooLarge, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
        missing = [f"the placeholder {place}" for place in missing_placeholders(text, cls.PLACES)]
        missing += [f"the operation {name}" for name in cls.OPERATIONS if name not in text]
        if missing:
            raise ValueError(f"{path}: it lacks {', '.join(missing)}")
        return text


class CriticTemplate(Template):
    PLACES = (
        "mission", "focus", "experiences", "ticket", "label", "candidate", "summary_max_chars", "critique_max_chars",
    )  # fmt: skip


class ReflectionTemplate(Template):
    PLACES = ("mission", "focus", "experiences", "bundle", "contrast", "suggestions", "max_operations")
    OPERATIONS = ("upsert", "remove", "merge")
