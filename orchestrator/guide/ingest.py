"""From the files of Stage-A to the tickets of each mission: what is held out, and in which order the others come."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from orchestrator.guide.settings import GuideSettings, has_control, mission_name
from orchestrator.settings import SettingsError
from orchestrator.settings.documents import shown_key
from tasks.common.text import quote
from tasks.common.validation import NAME_BYTES, PAGE_BYTES, REPORTED_FAULTS, unrepeated
from tasks.guide.ticket import Ticket, Verdict, image_number
from tasks.tables import DatasetError, json_object, read_lines, text_field

INCOMPLETE = "stage_a_incomplete"  # why a ticket takes part in nothing


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
                    ticket, is_complete = parse_ticket(json_object(line, unrepeated))
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
    """The ticket of one object of Stage-A, and whether Stage-A has completed it.

    Where it has not, summaries may be blank or missing.
    """
    faults = list[str]()
    names = [name for name in ("label_source", "label_timestamp") if row.get(name) is not None]
    texts = {name: text_field(row, name, faults, NAME_BYTES) for name in ("group_id", "mission", "label", *names)}
    if has_control(texts["group_id"]):
        faults.append(f"group_id {quote(texts['group_id'])} has a control character")
    if texts["label"] not in ("", "pass", "fail"):
        faults.append(f"label is {quote(texts['label'])}, not 'pass' or 'fail'")
    is_complete = row.get("stage_a_complete")
    if not isinstance(is_complete, bool):
        faults.append("stage_a_complete is not true or false")
    images = row.get("per_image")
    if not isinstance(images, dict) or (is_complete and not images):
        faults.append("per_image is not an object with summaries")
        images = {}
    summaries, numbers = dict[str, str](), dict[int, str]()
    for key, summary in images.items():
        try:
            if (other := numbers.setdefault(image_number(key), key)) != key:
                faults.append(f"per_image.{key}: is the same image as {other}")
        except ValueError:
            faults.append(f"per_image.{shown_key(key)}: the key is not image_ and a number")
        is_blank = summary is None or (isinstance(summary, str) and not summary.strip())
        if is_complete is not False or not is_blank:
            summaries[key] = text_field(images, key, faults, PAGE_BYTES, "per_image.")
    if faults:
        raise DatasetError("; ".join(faults))
    more = {name: texts.get(name) for name in ("label_source", "label_timestamp")}
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
    passed = [ticket for ticket in ordered if ticket.label == "pass"]
    failed = [ticket for ticket in ordered if ticket.label == "fail"]
    of_passed = min(_rounded(size * len(passed) / len(ordered)) if ordered else 0, len(passed), size)
    of_passed = max(of_passed, size - len(failed))
    held = {one.group_id for one in (*draw.sample(passed, of_passed), *draw.sample(failed, size - of_passed))}
    training = tuple(ticket for ticket in ordered if ticket.group_id not in held)
    return training, tuple(ticket for ticket in ordered if ticket.group_id in held)


@dataclass(frozen=True)
class EpochBatches:
    """One epoch: whole batches in the order of the shuffle, and the tickets that fill none."""

    epoch: int
    batches: tuple[tuple[Ticket, ...], ...]
    dropped: tuple[Ticket, ...]


def epoch_batches(tickets: Iterable[Ticket], settings: GuideSettings, epoch: int) -> EpochBatches:
    """One epoch, which counts from 1, over the training tickets of a mission."""
    order, size = sorted(tickets, key=lambda ticket: ticket.group_id), settings.sampler.group_batch_size
    random.Random(settings.runner.shuffle_seed + epoch).shuffle(order)
    whole = len(order) - len(order) % size
    batches = tuple(tuple(order[at : at + size]) for at in range(0, whole, size))
    return EpochBatches(epoch, batches, tuple(order[whole:]))


def shuffle_lines(epoch: EpochBatches) -> Iterator[dict[str, Any]]:
    """The lines of `epoch_k/shuffled_data.jsonl`: tickets as Stage-A writes them.

    `batch` counts over all epochs from 1, as the folders of the steps do; it is null for a dropped ticket.
    """
    first = (epoch.epoch - 1) * len(epoch.batches) + 1
    batches: list[tuple[int | None, Sequence[Ticket]]] = [*enumerate(epoch.batches, start=first)]
    for number, tickets in [*batches, (None, epoch.dropped)]:
        for ticket in tickets:
            yield {**stage_a_line(ticket), "epoch": epoch.epoch, "batch": number}


def one_sided_holdouts(tickets: Mapping[str, MissionTickets], settings: GuideSettings) -> list[str]:
    """A line for each mission whose held-out tickets all have one label: its gate cannot see all that an edit does."""
    if not settings.is_gated:
        return []
    return [
        f"warning: all held-out tickets of {shown_key(name)} are labelled {found.holdout[0].label}: an edit with which "
        "every ticket gets that verdict may be applied, whatever holdout.max_false_pass_rise says"
        for name, found in tickets.items()
        if len({ticket.label for ticket in found.holdout}) == 1
    ]


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


def _rounded(number: float) -> int:
    return int(number + 0.5)
