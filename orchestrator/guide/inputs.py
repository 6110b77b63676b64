"""What a run of `guide` begins with: its settings, files and options are checked together at each start.

They are kept in the run's folder, and a run goes on only with the same: `settings.yaml` has the settings and the
options of the farm, `tickets.json` hashes of the tickets and templates.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from typing_extensions import TypedDict

from orchestrator.guide.guidance import read_guidance
from orchestrator.guide.ingest import INCOMPLETE, MissionTickets
from orchestrator.guide.settings import GuideOptions, GuideSettings, guide_settings_from
from orchestrator.runs.folder import OutputError, OutputFolder, read_state
from orchestrator.settings.documents import flatten, override_values, pop_section, read_mapping, shown_key
from orchestrator.settings.farm import unwritable_folder
from orchestrator.settings.options import SettingsError
from orchestrator.settings.value_checks import EMBEDDED
from tasks.common.logs import secret
from tasks.common.named import ChildFunctionError
from tasks.common.text import quote
from tasks.cpu.guide import load_verifier
from tasks.guide.prompts import CRITIC_PLACES, OPERATIONS, REFLECTION_PLACES, Template
from tasks.store.keys import content_hash

SETTINGS_FILE, TICKETS_FILE = "settings.yaml", "tickets.json"
RESUMABLE = ("endpoint.api_key_env", *(f"farm.{field.name}" for field in dataclasses.fields(GuideOptions)))
"""The settings that may change before a run is resumed, by dotted name: none of them alters a result."""
MOST_LISTED = 10
SHORT = 16  # digits of a hash


@dataclass(frozen=True)
class Templates:
    """The prompts of critic and reflector; `critic` is None where the critic is off."""

    critic: Template | None
    reflection: Template

    def hashes(self) -> dict[str, str]:
        """By the setting that names the file."""
        by_name = {"critic.prompt_path": self.critic, "reflection.prompt_path": self.reflection}
        return {name: content_hash(dataclasses.asdict(one))[:SHORT] for name, one in by_name.items() if one is not None}


@dataclass(frozen=True)
class GuideInputs:
    """All that a run depends on.  `tickets` are by mission, in the order of the settings."""

    settings: GuideSettings
    options: GuideOptions
    templates: Templates
    tickets: dict[str, MissionTickets]


def check_guide(settings: GuideSettings, options: GuideOptions) -> Templates:
    """The templates; a SettingsError has everything that does not fit together."""
    problems, critic, reflection = list(_problems(settings, options)), None, None
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
    return Templates(critic, reflection)


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
    if not all((settings.folder / name).is_dir() for name in settings.missions):  # a run that has begun has its own
        try:
            found = read_guidance(Path(settings.guidance.path))
            for name in (name for name in settings.missions if name not in found):
                yield f"guidance.path: {settings.guidance.path} has no experiences of missions.{shown_key(name)}"
        except OutputError as error:
            yield f"guidance.path: {error}"
    yield from unwritable_folder("output.root", Path(settings.output.root))
    if settings.verifier is not None:
        try:
            load_verifier(settings.verifier)  # installed here: its source is part of the keys of what it says
        except ChildFunctionError as error:
            yield f"verifier: {error}"


class TicketsFile(TypedDict):
    """tickets.json: the hash of each ticket by mission and group id (of an excluded one, the reason), and those of what
    critic and reflector are asked, by the setting of the file.
    """

    tickets: dict[str, dict[str, str]]
    templates: dict[str, str]


def keep_run(output: OutputFolder, inputs: GuideInputs) -> None:
    """Write down what the run depends on."""
    values = {**dataclasses.asdict(inputs.settings), "farm": dataclasses.asdict(inputs.options)}
    output.write(SETTINGS_FILE, yaml.safe_dump(values, sort_keys=False, allow_unicode=True))
    if not (output.path / TICKETS_FILE).exists():
        output.write_state(TICKETS_FILE, _tickets_file(inputs))


def load_guide(folder: Path, overrides: Sequence[str] = ()) -> tuple[GuideSettings, GuideOptions]:
    """What the run in a folder was started with, and what is changed of it; wherever the folder is now."""
    values = read_mapping(folder / SETTINGS_FILE)
    override_values(values, overrides, RESUMABLE)
    options = pop_section(values, "farm", GuideOptions)
    folder = folder.resolve()
    if isinstance(output := values.get("output"), dict):
        output |= {"root": str(folder.parent), "run_id": folder.name}
    return guide_settings_from(values), options


def differences(folder: Path, inputs: GuideInputs) -> list[str]:
    """One line for each setting, template and mission that is another one than in the run in the folder."""
    now, before = (
        flatten({**dataclasses.asdict(settings), "output": {}}) for settings in (inputs.settings, load_guide(folder)[0])
    )
    problems = [
        f"{name}: {quote(now.get(name))} here, but {quote(before.get(name))} in the run in {folder}"
        for name in {**now, **before}
        if name not in RESUMABLE and now.get(name) != before.get(name)
    ]
    try:
        kept, made = read_state(folder / TICKETS_FILE, TicketsFile), _tickets_file(inputs)
    except FileNotFoundError:
        if not any((folder / name).is_dir() for name in inputs.tickets):
            return problems
        raise OutputError(
            f"{folder / TICKETS_FILE} is missing: which tickets the run began with is not known; start another run"
        ) from None
    problems += [
        f"{name}: the file has another content than when the run in {folder} began"
        for name, known in made["templates"].items()
        if kept["templates"].get(name) != known
    ]
    for mission, hashes in made["tickets"].items():
        known = kept["tickets"].get(mission, {})
        changed = [name for name in {**hashes, **known} if hashes.get(name) != known.get(name)]
        if changed:
            listed = ", ".join(changed[:MOST_LISTED]) + (", ..." if len(changed) > MOST_LISTED else "")
            problems.append(
                f"stage_a_paths: tickets of {shown_key(mission)} are others than in the run in {folder}: {listed}"
            )
    return problems


def _tickets_file(inputs: GuideInputs) -> TicketsFile:
    tickets = {
        name: {
            **{one.group_id: content_hash(dataclasses.asdict(one))[:SHORT] for one in found.judged},
            **dict.fromkeys(found.excluded, INCOMPLETE),
        }
        for name, found in inputs.tickets.items()
    }
    return TicketsFile(tickets=tickets, templates=inputs.templates.hashes())
