"""The prompts of critic and reflector: files that a user may change, checked before anything is asked.

Beside `NAME.txt` there may be a `NAME.zh.txt`, which missions with a Chinese focus take instead: a small model writes
in the language that it is addressed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tasks.files import FileTooLarge, read_limited
from tasks.guide.prompting import prompt_language
from tasks.template import missing_placeholders

OPERATIONS = ("upsert", "remove", "merge")
LONGEST_TEMPLATE = 20_000  # characters
MOST_BYTES = 4 * LONGEST_TEMPLATE  # of UTF-8


class TemplateError(ValueError):
    """A file cannot be used as a template.  The message is one line."""


@dataclass(frozen=True)
class CriticTemplate:
    """The critic's prompt, with a `{place}` for each of `PLACES`."""

    text: str
    chinese: str | None = None
    PLACES: ClassVar = (
        "mission", "focus", "experiences", "ticket", "label", "candidate", "summary_max_chars", "critique_max_chars",
    )  # fmt: skip

    @classmethod
    def read(cls, path: Path) -> CriticTemplate:
        """Raises: TemplateError."""
        return cls(*_read_languages(path, cls.PLACES))

    def text_for(self, focus: str) -> str:
        """The text in the language of a mission's focus, where there is one."""
        return _in_language(self.text, self.chinese, focus)


@dataclass(frozen=True)
class ReflectionTemplate:
    """The reflector's prompt, with a `{place}` for each of `PLACES`, which names the three operations."""

    text: str
    chinese: str | None = None
    PLACES: ClassVar = ("mission", "focus", "experiences", "bundle", "contrast", "suggestions", "max_operations")

    @classmethod
    def read(cls, path: Path) -> ReflectionTemplate:
        """Raises: TemplateError."""
        return cls(*_read_languages(path, cls.PLACES, OPERATIONS))

    def text_for(self, focus: str) -> str:
        """The text in the language of a mission's focus, where there is one."""
        return _in_language(self.text, self.chinese, focus)


def _read_languages(path: Path, places: Sequence[str], operations: Sequence[str] = ()) -> tuple[str, str | None]:
    """The file and the Chinese one beside it, None where there is none; both have all that is required."""
    beside = path.with_name(f"{path.stem}.zh{path.suffix}")
    return _checked(path, places, operations), _checked(beside, places, operations) if beside.exists() else None


def _checked(path: Path, places: Sequence[str], operations: Sequence[str]) -> str:
    text = _read(path)
    missing = [f"the placeholder {place}" for place in missing_placeholders(text, places)]
    _require([*missing, *(f"the operation {name}" for name in operations if name not in text)], path)
    return text


def _in_language(text: str, chinese: str | None, focus: str) -> str:
    return chinese if chinese is not None and prompt_language(focus) == "zh" else text


def _read(path: Path) -> str:
    try:
        text = read_limited(path, MOST_BYTES).decode()
    except OSError as error:
        raise TemplateError(f"{path}: {error.strerror or error}") from None
    except FileTooLarge as error:
        raise TemplateError(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise TemplateError(f"{path}: it is not text in UTF-8") from None
    if len(text) > LONGEST_TEMPLATE:
        raise TemplateError(f"{path}: it has {len(text):,} characters, and at most {LONGEST_TEMPLATE:,} are taken")
    return text


def _require(missing: Iterable[str], path: Path) -> None:
    if names := ", ".join(missing):
        raise TemplateError(f"{path}: it lacks {names}")
