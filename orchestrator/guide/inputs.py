"""What a run of `guide` begins with: its settings, files and options are checked together at each start.

A run goes on only with the same: `tickets.json` in its folder has hashes of the tickets and templates.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import TypedDict

from orchestrator.guide.guidance import read_guidance
from orchestrator.guide.ingest import INCOMPLETE, MissionTickets
from orchestrator.guide.settings import GuideOptions, GuideSettings
from orchestrator.runs.folder import OutputError, OutputFolder, read_state
from orchestrator.settings import SettingsError
from orchestrator.settings.documents import shown_key
from orchestrator.settings.farm import missing_key, unwritable_folder
from orchestrator.settings.options import EMBEDDED
from tasks.common.named import ChildFunctionError
from tasks.cpu.guide import load_verifier
from tasks.guide.prompts import CRITIC_PLACES, OPERATIONS, REFLECTION_PLACES, Template
from tasks.store.keys import content_hash

TICKETS_FILE = "tickets.json"
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
    if settings.model.model_name_or_path == EMBEDDED and options.sglang_url:
        yield '--sglang-url: is not asked while model.model_name_or_path is "embedded"'
    if settings.asks_rules and options.farm == "external":
        yield 'endpoint.api_base: "embedded" needs --farm embedded'
    if settings.endpoint and settings.needs_endpoint and not settings.asks_rules and options.farm == "embedded":
        # Workers of an external farm have their own environment; these have ours.
        yield from missing_key("endpoint.api_key_env", settings.endpoint.api_key_env)
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


def keep_tickets(output: OutputFolder, inputs: GuideInputs) -> None:
    """Write down which tickets and templates the run depends on."""
    if not (output.path / TICKETS_FILE).exists():
        output.write_state(TICKETS_FILE, _tickets_file(inputs))


def differences(folder: Path, inputs: GuideInputs) -> list[str]:
    """One line for each template and mission that is another one than in the run in the folder."""
    try:
        kept, made = read_state(folder / TICKETS_FILE, TicketsFile), _tickets_file(inputs)
    except FileNotFoundError:
        if not any((folder / name).is_dir() for name in inputs.tickets):
            return []
        raise OutputError(
            f"{folder / TICKETS_FILE} is missing: which tickets the run began with is not known; start another run"
        ) from None
    problems = [
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
