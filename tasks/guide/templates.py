"""The prompts of critic and reflector: files that a user may change, checked before anything is asked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tasks.template import missing_placeholders

OPERATIONS = ("upsert", "remove", "merge")
LONGEST_TEMPLATE = 20_000  # characters


class TemplateError(ValueError):
    """A file cannot be used as a template.  The message is one line."""


@dataclass(frozen=True)
class CriticTemplate:
    """The critic's prompt, with a `{place}` for each of `PLACES`."""

    text: str
    PLACES: ClassVar = (
        "mission", "focus", "experiences", "ticket", "label", "candidate", "summary_max_chars", "critique_max_chars",
    )  # fmt: skip

    @classmethod
    def read(cls, path: Path) -> CriticTemplate:
        """Raises: TemplateError."""
        text = _read(path)
        _require((f"the placeholder {place}" for place in missing_placeholders(text, cls.PLACES)), path)
        return cls(text)


@dataclass(frozen=True)
class ReflectionTemplate:
    """The reflector's prompt, with a `{place}` for each of `PLACES`, which names the three operations."""

    text: str
    PLACES: ClassVar = ("mission", "focus", "experiences", "bundle", "contrast", "suggestions", "max_operations")

    @classmethod
    def read(cls, path: Path) -> ReflectionTemplate:
        """Raises: TemplateError."""
        text = _read(path)
        missing = [f"the placeholder {place}" for place in missing_placeholders(text, cls.PLACES)]
        _require([*missing, *(f"the operation {name}" for name in OPERATIONS if name not in text)], path)
        return cls(text)


def _read(path: Path) -> str:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise TemplateError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise TemplateError(f"{path}: it is not text in UTF-8") from None
    if len(text) > LONGEST_TEMPLATE:
        raise TemplateError(f"{path}: it has {len(text):,} characters, and at most {LONGEST_TEMPLATE:,} are taken")
    return text


def _require(missing: Iterable[str], path: Path) -> None:
    if names := ", ".join(missing):
        raise TemplateError(f"{path}: it lacks {names}")
