"""`prompts.yaml`: system prompts that ask for short answers, the rivals of every search."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from pydantic import StrictStr

from orchestrator.settings.documents import Document, Text, read_document
from orchestrator.settings.options import SettingsError

PLAIN = "none"
"""The name of the prompt without a sentence."""


@dataclass(frozen=True)
class BrevityPrompt(Document):
    """A sentence that is appended to the system prompt, under the name that reports show."""

    name: Text
    text: StrictStr

    def system_prompt(self, base: str) -> str:
        """The whole system prompt: `base`, a space, the sentence."""
        return " ".join(filter(None, [base.rstrip(), self.text.strip()]))


@dataclass(frozen=True)
class PromptFile(Document):
    """The whole file."""

    prompts: tuple[BrevityPrompt, ...]


def read_prompts(path: Path) -> tuple[BrevityPrompt, ...]:
    """The prompts of a file, in its order, the plain one among them.

    Raises: SettingsError with all that is wrong: a key, two prompts of one name or text, or no plain prompt.
    """
    prompts = read_document(path, PromptFile).prompts
    problems = [
        f"{path}: the {what} {value!r} occurs {times} times"
        for what, values in (("name", [p.name for p in prompts]), ("text", [p.text.strip() for p in prompts]))
        for value, times in Counter(values).items()
        if times > 1
    ]
    plain = [prompt for prompt in prompts if prompt.name == PLAIN]
    if not plain or plain[0].text.strip():
        problems.append(f'{path}: one prompt must have the name "{PLAIN}" and an empty text: the plain model')
    if problems:
        raise SettingsError(problems)
    return prompts
