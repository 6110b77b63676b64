"""What a run of `guide` begins with: its settings, templates and tickets are checked together at each start.

A run goes on only with the same: `tickets.json` in its folder has hashes of the tickets and templates.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from orchestrator.guide.guidance import read_guidance
from orchestrator.guide.settings import GuideOptions, GuideSettings, has_control, mission_name
from orchestrator.runs.folder import OutputError, OutputFolder, read_json
from orchestrator.settings import SettingsError
from orchestrator.settings.documents import shown_key
from orchestrator.settings.farm import missing_key, unwritable_folder
from orchestrator.settings.options import EMBEDDED
from tasks.common.named import ChildFunctionError
from tasks.common.text import quote
from tasks.common.validation import NAME_BYTES, PAGE_BYTES, REPORTED_FAULTS
from tasks.guide.prompts import CRITIC_PLACES, OPERATIONS, REFLECTION_PLACES, Template
from tasks.guide.ticket import Ticket, Verdict, image_number
from tasks.store.keys import content_hash
from tasks.tables import DatasetError, json_object, read_lines, text_field

TICKETS_FILE = "tickets.json"
INCOMPLETE = "stage_a_incomplete"  # why a ticket takes part in nothing


@dataclass(frozen=True)
class Templates:
    """The prompts of critic and reflector; `critic` is None where the critic is off."""

    critic: Template | None
    reflection: Template


@dataclass(frozen=True)
class MissionTickets:
    """The tickets of a mission, each part in the order of the group ids; of those that are excluded, the ids."""

    mission: str
    training: tuple[Ticket, ...]
    holdout: tuple[Ticket, ...]
    excluded: tuple[str, ...]

    @property
    def judged(self) -> tuple[Ticket, ...]:
        """Training and held-out tickets, by group id."""
        return tuple(sorted((*self.training, *self.holdout), key=lambda ticket: ticket.group_id))

    def counts(self) -> dict[str, int]:
        """As in `stats.json`; passes and fails are of those that take part."""
        labels = Counter(ticket.label for ticket in self.judged)
        sizes = {name: len(getattr(self, name)) for name in ("training", "holdout", "excluded")}
        return {**sizes, "pass": labels["pass"], "fail": labels["fail"]}


@dataclass(frozen=True)
class GuideInputs:
    """All that a run depends on.  `tickets` are by mission, in the order of the settings."""

    settings: GuideSettings
    options: GuideOptions
    templates: Templates
    tickets: dict[str, MissionTickets]


def check_guide(settings: GuideSettings, options: GuideOptions) -> Templates:
    """The templates; a SettingsError has everything that does not fit together."""
    problems, found = list(_problems(settings, options)), dict[str, Template]()
    wanted = {"critic": (CRITIC_PLACES, ()), "reflection": (REFLECTION_PLACES, OPERATIONS)}
    for name in wanted if settings.critic.enabled else ("reflection",):
        try:
            found[name] = Template.read(Path(getattr(settings, name).prompt_path), *wanted[name])
        except ValueError as error:
            problems.append(f"{name}.prompt_path: {error}")
    if problems:
        raise SettingsError(problems)
    return Templates(found.get("critic"), found["reflection"])


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
        from tasks.guide.work import load_verifier  # with Celery

        try:
            load_verifier(settings.verifier)  # installed here: its source is part of the keys of what it says
        except ChildFunctionError as error:
            yield f"verifier: {error}"


def ingest(settings: GuideSettings) -> dict[str, MissionTickets]:
    """The tickets of all missions, in the order of the settings."""
    tickets, excluded = read_tickets(settings.stage_a_paths, list(settings.missions))
    found = {
        mission: MissionTickets(mission, *split_holdout(tickets[mission], settings), tuple(excluded[mission]))
        for mission in settings.missions
    }
    if problems := [line for one in found.values() for line in _size_problems(one, settings)]:
        raise SettingsError(problems)
    return found


def read_tickets(
    paths: Iterable[str], missions: Sequence[str]
) -> tuple[Mapping[str, Sequence[Ticket]], Mapping[str, Sequence[str]]]:
    """By mission the tickets of files that Stage-A has completed, and the ids of the others, both by group id."""
    tickets: dict[str, list[Ticket]] = {mission: [] for mission in missions}
    excluded: dict[str, list[str]] = {mission: [] for mission in missions}
    first: dict[tuple[str, str], str] = {}  # where a ticket was seen first
    problems = list[str]()
    for path in paths:
        try:
            for number, line in read_lines(Path(path)):
                place = f"{path}: line {number}"
                try:
                    ticket, is_complete = parse_ticket(json_object(line))
                except DatasetError as error:
                    problems.append(f"{place}: {error}")
                    continue
                name = (ticket.mission, ticket.group_id)
                if known := first.get(name):
                    problems.append(f"{place}: group_id {quote(ticket.group_id)} is already at {known}")
                elif ticket.mission not in tickets:
                    problems.append(f"{place}: mission {quote(ticket.mission)} is not under missions")
                elif is_complete:
                    tickets[ticket.mission].append(ticket)
                else:
                    excluded[ticket.mission].append(ticket.group_id)
                first.setdefault(name, place)
        except DatasetError as error:
            problems.append(str(error))
    if problems:
        more = [f"{len(problems) - REPORTED_FAULTS} more"] if len(problems) > REPORTED_FAULTS else []
        raise SettingsError([f"stage_a_paths: {problem}" for problem in [*problems[:REPORTED_FAULTS], *more]])
    return (
        {mission: sorted(found, key=lambda ticket: ticket.group_id) for mission, found in tickets.items()},
        {mission: sorted(found) for mission, found in excluded.items()},
    )


def parse_ticket(row: dict[str, Any]) -> tuple[Ticket, bool]:
    """The ticket of one object of Stage-A, and whether Stage-A has completed it; else it is without summaries."""
    faults = list[str]()
    names = [name for name in ("label_source", "label_timestamp") if row.get(name) is not None]
    texts = {name: text_field(row, name, faults, NAME_BYTES) for name in ("group_id", "mission", "label", *names)}
    if has_control(texts["group_id"]):
        faults.append(f"group_id {quote(texts['group_id'])} has a control character")
    if texts["label"] not in ("", "pass", "fail"):
        faults.append(f"label is {quote(texts['label'])}, not 'pass' or 'fail'")
    is_complete, images = row.get("stage_a_complete"), row.get("per_image")
    if not isinstance(is_complete, bool):
        faults.append("stage_a_complete is not true or false")
    if not isinstance(images, dict) or (is_complete and not images):
        faults.append("per_image is not an object with summaries")
        images = {}
    summaries = dict[str, str]()
    for key in images if is_complete is not False else ():
        try:
            image_number(key)
        except ValueError:
            faults.append(f"per_image.{shown_key(key)}: the key is not image_ and a number")
        summaries[key] = text_field(images, key, faults, PAGE_BYTES, "per_image.")
    if faults:
        raise DatasetError("; ".join(faults))
    more = {name: texts[name] for name in names}
    mission, label = mission_name(texts["mission"]), cast(Verdict, texts["label"])
    return Ticket(texts["group_id"], mission, label, summaries, **more), bool(is_complete)


def stage_a_line(ticket: Ticket) -> dict[str, Any]:
    """A complete ticket as one object of Stage-A's files."""
    extra = {"label_source": ticket.label_source, "label_timestamp": ticket.label_timestamp}
    return {
        "group_id": ticket.group_id,
        "mission": ticket.mission,
        "label": ticket.label,
        "per_image": dict(ticket.per_image),
        "stage_a_complete": True,
        **{name: value for name, value in extra.items() if value is not None},
    }


def split_holdout(tickets: Sequence[Ticket], settings: GuideSettings) -> tuple[tuple[Ticket, ...], tuple[Ticket, ...]]:
    """Training and held-out tickets of one mission.

    The held-out ones are `fraction` of all, rounded, with as large a share of each label; drawn by the seed alone, so
    that the order of lines and files makes no difference.
    """
    ordered = sorted(tickets, key=lambda ticket: ticket.group_id)
    draw = random.Random(settings.holdout.seed)
    size = _rounded(settings.holdout.fraction * len(ordered))
    passed, failed = ([ticket for ticket in ordered if ticket.label == label] for label in ("pass", "fail"))
    of_passed = min(_rounded(size * len(passed) / len(ordered)) if ordered else 0, len(passed), size)
    of_passed = max(of_passed, size - len(failed))
    held = {one.group_id for one in (*draw.sample(passed, of_passed), *draw.sample(failed, size - of_passed))}
    training = tuple(ticket for ticket in ordered if ticket.group_id not in held)
    return training, tuple(ticket for ticket in ordered if ticket.group_id in held)


def _rounded(number: float) -> int:
    return int(number + 0.5)


def _size_problems(tickets: MissionTickets, settings: GuideSettings) -> Iterator[str]:
    """What is wrong with a mission's numbers of tickets."""
    name, size, fraction = shown_key(tickets.mission), settings.sampler.group_batch_size, settings.holdout.fraction
    if not tickets.judged:
        gaps = f", only {len(tickets.excluded)} that Stage-A has not completed" if tickets.excluded else ""
        yield f"missions.{name}: the files of stage_a_paths have no ticket of it{gaps}"
    elif fraction and not tickets.holdout:
        yield f"holdout.fraction: {fraction:g} of the {len(tickets.judged)} tickets of {name} holds none out"
    elif len(tickets.training) < size:
        yield (
            f"sampler.group_batch_size: {size} is more than the {len(tickets.training)} training tickets of {name} "
            f"({len(tickets.holdout)} of its {len(tickets.judged)} are held out)"
        )


def one_sided_holdouts(tickets: Mapping[str, MissionTickets], settings: GuideSettings) -> list[str]:
    """A line for each mission whose held-out tickets all have one label: its gate cannot see all that an edit does."""
    return [
        f"warning: all held-out tickets of {shown_key(name)} are labelled {found.holdout[0].label}: an edit with which "
        "every ticket gets that verdict may be applied, whatever holdout.max_false_pass_rise says"
        for name, found in tickets.items()
        if settings.gate == "preview" and len({ticket.label for ticket in found.holdout}) == 1
    ]


@dataclass(frozen=True)
class EpochBatches:
    """One epoch: whole batches in the order of the shuffle, and the tickets that fill none."""

    epoch: int
    batches: tuple[tuple[Ticket, ...], ...]
    dropped: tuple[Ticket, ...]

    def lines(self) -> Iterator[dict[str, Any]]:
        """As in `epoch_k/shuffled_data.jsonl`: tickets as Stage-A writes them.

        `batch` counts over all epochs from 1, as the folders of the steps do; it is null for a dropped ticket.
        """
        first = (self.epoch - 1) * len(self.batches) + 1
        for number, tickets in [*enumerate(self.batches, start=first), (None, self.dropped)]:
            for ticket in tickets:
                yield {**stage_a_line(ticket), "epoch": self.epoch, "batch": number}


def epoch_batches(tickets: Iterable[Ticket], settings: GuideSettings, epoch: int) -> EpochBatches:
    """One epoch, which counts from 1, over the training tickets of a mission."""
    order, size = sorted(tickets, key=lambda ticket: ticket.group_id), settings.sampler.group_batch_size
    random.Random(settings.runner.shuffle_seed + epoch).shuffle(order)
    whole = len(order) - len(order) % size
    batches = tuple(tuple(order[at : at + size]) for at in range(0, whole, size))
    return EpochBatches(epoch, batches, tuple(order[whole:]))


# A run goes on only with the same files


def keep_hashes(output: OutputFolder, inputs: GuideInputs) -> None:
    """Write down which tickets and templates the run depends on."""
    if not (output.path / TICKETS_FILE).exists():
        output.write_json(TICKETS_FILE, _hashes(inputs))


def differences(folder: Path, inputs: GuideInputs) -> list[str]:
    """One line for each template and mission whose content is another one than in the run in the folder."""
    try:
        kept = read_json(folder / TICKETS_FILE, dict[str, str])
    except FileNotFoundError:
        if not any((folder / name).is_dir() for name in inputs.tickets):
            return []
        raise OutputError(
            f"{folder / TICKETS_FILE} is missing: which tickets the run began with is not known; start another run"
        ) from None
    made = _hashes(inputs)
    changed = [name for name in {**made, **kept} if made.get(name) != kept.get(name)]
    return [f"{name}: the content is another one than when the run in {folder} began" for name in changed]


def _hashes(inputs: GuideInputs) -> dict[str, str]:
    """By the setting that names the files."""
    templates = {"reflection.prompt_path": inputs.templates.reflection, "critic.prompt_path": inputs.templates.critic}
    tickets = {f"stage_a_paths: tickets of {shown_key(name)}": found for name, found in inputs.tickets.items()}
    return {name: content_hash(dataclasses.asdict(one)) for name, one in (templates | tickets).items() if one}
