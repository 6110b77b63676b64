"""What the settings of `guide`, its files and the options of its farm must keep together, at each start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from orchestrator.guide.guidance_file import GuidanceError, read_guidance
from orchestrator.guide.options import GuideOptions
from orchestrator.guide.prompt_files import Templates
from orchestrator.guide.settings import GuideSettings
from orchestrator.settings import SettingsError
from orchestrator.settings.documents import shown_key
from orchestrator.settings.file_checks import unwritable_folder
from orchestrator.settings.value_checks import EMBEDDED
from tasks.guide.verifier import VerifierError, load_verifier
from tasks.secret import secret


def check_guide(settings: GuideSettings, options: GuideOptions) -> Templates:
    """The templates, as they are now.  Raises: SettingsError with all problems; nothing was started then."""
    problems = [*_farm_problems(settings, options), *_guidance_problems(settings), *_output_problems(settings)]
    templates: Templates | None = None
    try:
        templates = Templates.read(settings)
    except SettingsError as error:
        problems += error.problems
    if problems := [*problems, *_verifier_problems(settings)]:
        raise SettingsError(problems)
    assert templates is not None
    return templates


def _farm_problems(settings: GuideSettings, options: GuideOptions) -> Iterator[str]:
    if options.redis_url and options.farm != "external":
        yield "--redis-url: goes with --farm external, and only with that"
    if settings.model.model_name_or_path == EMBEDDED and options.sglang_url:
        yield '--sglang-url: is not asked while model.model_name_or_path is "embedded"'
    if options.budget_usd and None in options.prices:
        yield "--budget: needs --price-prompt, --price-cached and --price-completion"
    if settings.endpoint is None or not settings.needs_endpoint:
        return
    if settings.endpoint.api_base == EMBEDDED:
        if options.farm == "external":
            yield 'endpoint.api_base: "embedded" needs --farm embedded'
    elif options.farm == "embedded" and not secret(name := settings.endpoint.api_key_env):
        # Workers of an external farm have their own environment; these have ours.
        yield f"endpoint.api_key_env: neither {name} nor the file named by {name}_FILE holds a key"


def _guidance_problems(settings: GuideSettings) -> Iterator[str]:
    """The file with the first experiences has every mission; a run that has begun has its own."""
    begun = [name for name in settings.missions if (settings.folder / name).is_dir()]
    if len(begun) == len(settings.missions):
        return
    try:
        found = read_guidance(Path(settings.guidance.path))
    except GuidanceError as error:
        yield f"guidance.path: {error}"
        return
    for name in settings.missions:
        if name not in found:
            yield f"guidance.path: {settings.guidance.path} has no experiences of missions.{shown_key(name)}"


def _output_problems(settings: GuideSettings) -> Iterator[str]:
    return unwritable_folder("output.root", Path(settings.output.root))


def _verifier_problems(settings: GuideSettings) -> Iterator[str]:
    """The verifier is installed here: its source is part of the keys of what it says."""
    if settings.verifier is not None:
        try:
            load_verifier(settings.verifier)
        except VerifierError as error:
            yield f"verifier: {error}"
