"""`prompts.yaml`: system prompts that ask for short answers, the rivals of every search."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from pydantic import StrictStr

from orchestrator.settings.documents import Document, Text, read_document
from orchestrator.settings.options import Settings, SettingsError
from orchestrator.settings.references import SHIPPED

PLAIN = "plain"
"""The name of the prompt without a sentence."""
RESERVED = re.compile(r"first sentence|max_tokens \d+|g\d+_.*|.*: (end|log-odds|random) .*")
"""Names of the systems that a run makes itself: what is cut, individuals, and the vectors of each arm."""


@dataclass(frozen=True)
class BrevityPrompt(Document):
    """A sentence that is appended to the system prompt, under the name that reports show."""

    name: Text
    text: StrictStr

    def system_prompt(self, base: str) -> str:
        """The whole system prompt: `base`, a space, the sentence; without a sentence `base` as it is."""
        if not self.text.strip():
            return base
        return " ".join(filter(None, [base.rstrip(), self.text.strip()]))


@dataclass(frozen=True)
class PromptFile(Document):
    """The whole file."""

    prompts: tuple[BrevityPrompt, ...]


PLAIN_ONLY = PromptFile(prompts=(BrevityPrompt(name=PLAIN, text=""),))


def read_prompts(path: Path) -> PromptFile:
    """The prompts of a file, the plain one first."""
    found = read_document(path, PromptFile)
    prompts = found.prompts
    problems = [
        f"{path}: the {what} {value!r} occurs {times} times"
        for what, values in (("name", [p.name for p in prompts]), ("text", [p.text.strip() for p in prompts]))
        for value, times in Counter(values).items()
        if times > 1
    ]
    problems += [
        f"{path}: the name {p.name!r} is that of a system which every run makes"
        for p in prompts
        if RESERVED.fullmatch(p.name)
    ]
    if not prompts or prompts[0].name != PLAIN or prompts[0].text.strip():
        problems.append(f'{path}: the first prompt must have the name "{PLAIN}" and an empty text: the plain model')
    if problems:
        raise SettingsError(problems)
    return found


def prompts_of(settings: Settings) -> dict[str, str]:
    """The whole system prompts that a run measures, by their names, the plain one first."""
    path = settings.prompts_path
    found = PLAIN_ONLY if path is None else read_prompts(shipped_file() if path == SHIPPED else path)
    return {prompt.name: prompt.system_prompt(settings.target_system_prompt) for prompt in found.prompts}


def shipped_file() -> Path:
    """The path of prompts.yaml: in configs/ of a checkout, or in this folder when installed from a wheel."""
    installed = Path(__file__).parent / "prompts.yaml"
    return installed if installed.is_file() else Path(__file__).parents[2] / "configs" / "prompts.yaml"
