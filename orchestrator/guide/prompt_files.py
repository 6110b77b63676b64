"""The prompts of critic and reflector: files that the settings name, read, and known again by their hashes.

What the program itself says to a model, and the form in which it has it answer, have a hash too: another version of it
may have others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.guide.settings import GuideSettings
from orchestrator.settings import SettingsError
from tasks.context import content_hash
from tasks.guide.critique import SYSTEM as CRITIC_SYSTEM
from tasks.guide.critique import critic_schema
from tasks.guide.prompting import rollout_messages
from tasks.guide.proposal import PROPOSAL_SCHEMA, narrowed_schema, solved_before
from tasks.guide.proposal import SYSTEM as PROPOSAL_SYSTEM
from tasks.guide.templates import CriticTemplate, ReflectionTemplate, TemplateError
from tasks.guide.ticket import Ticket
from tasks.guide.verdict_lines import THREE_LINES_REGEX

FOCUSES = ("cups", "杯子")
"""One of each language."""


@dataclass(frozen=True)
class Templates:
    """The prompts of critic and reflector; `critic` is None where the critic is off."""

    critic: CriticTemplate | None
    reflection: ReflectionTemplate

    @classmethod
    def read(cls, settings: GuideSettings) -> Templates:
        """Raises: SettingsError for each file that cannot be used as a template."""
        critic, reflection, problems = None, None, list[str]()
        try:
            critic = CriticTemplate.read(Path(settings.critic.prompt_path)) if settings.critic.enabled else None
        except TemplateError as error:
            problems.append(f"critic.prompt_path: {error}")
        try:
            reflection = ReflectionTemplate.read(Path(settings.reflection.prompt_path))
        except TemplateError as error:
            problems.append(f"reflection.prompt_path: {error}")
        if problems or reflection is None:
            raise SettingsError(problems)
        return cls(critic, reflection)

    def hashes(self) -> dict[str, str]:
        """By the setting that names the file."""
        by_name = {"critic.prompt_path": self.critic, "reflection.prompt_path": self.reflection}
        return {name: content_hash(dataclasses.asdict(one))[:16] for name, one in by_name.items() if one is not None}


def prompt_hashes(settings: GuideSettings) -> dict[str, str]:
    """Of all that the program adds to tickets, experiences and templates, in both languages, and of the forms of the
    answers, by who is asked."""
    ticket, experiences = Ticket("t", "m", "pass", {"image_1": "seen"}), {"G0": "Look."}
    layout = ReflectionTemplate(" ".join(f"{{{place}}}" for place in ReflectionTemplate.PLACES))
    asked: dict[str, Sequence[object]] = {
        "target": [rollout_messages("m", focus, experiences, ticket, settings.sampler.prompt) for focus in FOCUSES],
        "reflector": [PROPOSAL_SYSTEM],
    }
    if settings.critic.enabled:
        asked["critic"] = [CRITIC_SYSTEM]
    if settings.reflection.backend == "target":
        asked["reflector"] = [solved_before((PROPOSAL_SYSTEM, ""), layout, focus) for focus in FOCUSES]
    forms = _forms(settings, list(experiences))
    return {name: content_hash(list(messages), forms.get(name))[:16] for name, messages in asked.items()}


def _forms(settings: GuideSettings, keys: Sequence[str]) -> dict[str, object]:
    """The grammars and JSON schemas under which each answers; the target has one only where it is constrained."""
    critic, reflection = settings.critic, settings.reflection
    caps, critic_keys = (
        (critic.summary_max_chars, critic.critique_max_chars),
        keys if critic.backend == "target" else None,
    )
    forms: dict[str, object] = {"critic": critic_schema(*caps, critic_keys), "reflector": PROPOSAL_SCHEMA}
    if reflection.backend == "target":
        forms["reflector"] = narrowed_schema(keys, 1, reflection.max_operations)
    if settings.sampler.constrain == "three_line":
        forms["target"] = THREE_LINES_REGEX
    return forms
