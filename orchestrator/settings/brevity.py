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
BEST_PROMPT = "best"
"""The value of CONFIG_TARGET_SYSTEM_PROMPT with which the search starts from the best prompt of the file."""


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
    """The whole file.  `base` is the prompt to which the sentences are appended, where the settings name none."""

    base: StrictStr
    prompts: tuple[BrevityPrompt, ...]


PLAIN_ONLY = PromptFile(base="", prompts=(BrevityPrompt(name=PLAIN, text=""),))


def read_prompts(path: Path) -> PromptFile:
    """The prompts of a file, the plain one first.

    Raises: SettingsError with all that is wrong: a key, two prompts of one name or text, or no plain prompt.
    """
    found = read_document(path, PromptFile)
    prompts = found.prompts
    problems = [
        f"{path}: the {what} {value!r} occurs {times} times"
        for what, values in (("name", [p.name for p in prompts]), ("text", [p.text.strip() for p in prompts]))
        for value, times in Counter(values).items()
        if times > 1
    ]
    if not prompts or prompts[0].name != PLAIN or prompts[0].text.strip():
        problems.append(f'{path}: the first prompt must have the name "{PLAIN}" and an empty text: the plain model')
    if problems:
        raise SettingsError(problems)
    return found
