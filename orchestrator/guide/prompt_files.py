"""The prompts of critic and reflector: files that the settings name, read, and known again by their hashes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from orchestrator.guide.settings import GuideSettings
from orchestrator.settings import SettingsError
from tasks.context import content_hash
from tasks.guide.templates import CriticTemplate, ReflectionTemplate, TemplateError


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
