"""From the files of Stage-A to the tickets of each mission: what is held out, and in which order the others come."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.guide.settings import GuideSettings
from orchestrator.guide.stage_a import read_tickets, stage_a_line
from orchestrator.settings.documents import shown_key
from orchestrator.settings.options import SettingsError
from tasks.guide.ticket import Ticket


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


@dataclass(frozen=True)
class EpochBatches:
    """One epoch: whole batches in the order of the shuffle, and the tickets that fill none."""

    epoch: int
    batches: tuple[tuple[Ticket, ...], ...]
    dropped: tuple[Ticket, ...]


Ingested = Mapping[str, MissionTickets]
"""By mission, in the order of the settings."""


def ingest(settings: GuideSettings) -> Ingested:
    """The tickets of all missions of the settings."""
    tickets, excluded = read_tickets(settings.stage_a_paths, list(settings.missions))
    found = {
        mission: MissionTickets(mission, *split_holdout(tickets[mission], settings), tuple(excluded[mission]))
        for mission in settings.missions
    }
    if problems := [line for one in found.values() for line in _size_problems(one, settings)]:
        raise SettingsError(problems)
    return found


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


def shuffled(tickets: Iterable[Ticket], shuffle_seed: int, epoch: int) -> list[Ticket]:
    """The tickets in the order of an epoch, which counts from 1."""
    ordered = sorted(tickets, key=lambda ticket: ticket.group_id)
    random.Random(shuffle_seed + epoch).shuffle(ordered)
    return ordered


def epoch_batches(tickets: Iterable[Ticket], settings: GuideSettings, epoch: int) -> EpochBatches:
    """One epoch over the training tickets of a mission; the last batch is dropped unless it is whole."""
    order, size = shuffled(tickets, settings.runner.shuffle_seed, epoch), settings.sampler.group_batch_size
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


def one_sided_holdouts(tickets: Ingested, settings: GuideSettings) -> list[str]:
    """A line for each mission whose held-out tickets all have one label: its gate cannot see all that an edit does."""
    if not settings.is_gated:
        return []
    return [
        f"warning: all held-out tickets of {shown_key(name)} are labelled {found.holdout[0].label}: an edit with which "
        "every ticket gets that verdict may be applied, whatever holdout.max_false_pass_rise says"
        for name, found in tickets.items()
        if len({ticket.label for ticket in found.holdout}) == 1
    ]


def ticket_counts(tickets: MissionTickets) -> dict[str, int]:
    """How many tickets a mission has, as in `stats.json`; passes and fails are of those that take part."""
    labels = Counter(ticket.label for ticket in tickets.judged)
    return {
        "training": len(tickets.training),
        "holdout": len(tickets.holdout),
        "excluded": len(tickets.excluded),
        "pass": labels["pass"],
        "fail": labels["fail"],
    }


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
