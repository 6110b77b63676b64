"""What the settings of `guide`, its files and the options of its farm must keep together, at each start."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orchestrator.guide.guidance import read_guidance
from orchestrator.guide.options import GuideOptions
from orchestrator.guide.settings import GuideSettings
from orchestrator.runs.folder import OutputError
from orchestrator.settings.documents import shown_key
from orchestrator.settings.options import SettingsError
from orchestrator.settings.run_output import unwritable_folder
from orchestrator.settings.value_checks import EMBEDDED
from tasks.common.child_function import ChildFunctionError
from tasks.common.logs import secret
from tasks.cpu.guide import load_verifier
from tasks.guide.prompts import CRITIC_PLACES, OPERATIONS, REFLECTION_PLACES, Template
from tasks.store.keys import content_hash


@dataclass(frozen=True)
class Templates:
    """The prompts of critic and reflector; `critic` is None where the critic is off."""

    critic: Template | None
    reflection: Template

    @classmethod
    def read(cls, settings: GuideSettings) -> Templates:
        critic, reflection, problems = None, None, list[str]()
        try:
            path = Path(settings.critic.prompt_path)
            critic = Template.read(path, CRITIC_PLACES) if settings.critic.enabled else None
        except ValueError as error:
            problems.append(f"critic.prompt_path: {error}")
        try:
            reflection = Template.read(Path(settings.reflection.prompt_path), REFLECTION_PLACES, OPERATIONS)
        except ValueError as error:
            problems.append(f"reflection.prompt_path: {error}")
        if problems or reflection is None:
            raise SettingsError(problems)
        return cls(critic, reflection)

    def hashes(self) -> dict[str, str]:
        """By the setting that names the file."""
        by_name = {"critic.prompt_path": self.critic, "reflection.prompt_path": self.reflection}
        return {name: content_hash(dataclasses.asdict(one))[:16] for name, one in by_name.items() if one is not None}


def check_guide(settings: GuideSettings, options: GuideOptions) -> Templates:
    """The templates, as they are now."""
    problems = list(_problems(settings, options))
    try:
        templates = Templates.read(settings)
    except SettingsError as error:
        raise SettingsError([*problems, *error.problems]) from None
    if problems:
        raise SettingsError(problems)
    return templates


def _problems(settings: GuideSettings, options: GuideOptions) -> Iterator[str]:
    if options.redis_url and options.farm != "external":
        yield "--redis-url: goes with --farm external, and only with that"
    if settings.model.model_name_or_path == EMBEDDED and options.sglang_url:
        yield '--sglang-url: is not asked while model.model_name_or_path is "embedded"'
    if options.budget_usd and None in options.prices:
        yield "--budget: needs --price-prompt, --price-cached and --price-completion"
    if settings.endpoint is not None and settings.needs_endpoint:
        if settings.endpoint.api_base == EMBEDDED:
            if options.farm == "external":
                yield 'endpoint.api_base: "embedded" needs --farm embedded'
        elif options.farm == "embedded" and not secret(name := settings.endpoint.api_key_env):
            # Workers of an external farm have their own environment; these have ours.
            yield f"endpoint.api_key_env: neither {name} nor the file named by {name}_FILE holds a key"
    yield from _guidance_problems(settings)
    yield from unwritable_folder("output.root", Path(settings.output.root))
    if settings.verifier is not None:
        try:
            load_verifier(settings.verifier)  # installed here: its source is part of the keys of what it says
        except ChildFunctionError as error:
            yield f"verifier: {error}"


def _guidance_problems(settings: GuideSettings) -> Iterator[str]:
    """The file with the first experiences has every mission; a run that has begun has its own."""
    if all((settings.folder / name).is_dir() for name in settings.missions):
        return
    try:
        found = read_guidance(Path(settings.guidance.path))
    except OutputError as error:
        yield f"guidance.path: {error}"
        return
    for name in settings.missions:
        if name not in found:
            yield f"guidance.path: {settings.guidance.path} has no experiences of missions.{shown_key(name)}"
