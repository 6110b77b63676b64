"""What every judge without a language model is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from tasks.records import Verdict


class Grader(ABC):
    """`title` is the judge's name in reports, `needs` what a right answer must have for it."""

    title: ClassVar[str]
    needs: ClassVar[str] = ""

    @abstractmethod
    def key(self, question: str, gold: str, answer: str) -> str:
        """The content hash (sha256, hex) of a verdict: it covers all that the verdict depends on."""

    @abstractmethod
    def grade(self, question: str, gold: str, answer: str) -> Verdict:
        """Whether `answer` agrees with `gold`.  An error is raised, never turned into a verdict."""

    def can_judge(self, gold: str) -> bool:
        """Whether the gold has what it needs."""
        return True
