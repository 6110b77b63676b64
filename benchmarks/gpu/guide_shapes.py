"""Shapes of tickets from easy to hard: how many planted rules a mission has, and how openly a summary tells a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.guide.tickets.generate import TicketShape


@dataclass(frozen=True)
class NamedShape:
    rules: int
    shape: TicketShape


SHAPES: Mapping[str, NamedShape] = {
    "stated": NamedShape(1, TicketShape(images=2, mentioned=0.0, phrasings=1)),
    "told": NamedShape(1, TicketShape(images=2, mentioned=1.0, phrasings=1)),
    "stated_two": NamedShape(2, TicketShape(images=2, mentioned=0.0, phrasings=1)),
    "stated_three": NamedShape(3, TicketShape(images=2, mentioned=0.0, phrasings=1)),
    "told_two": NamedShape(2, TicketShape(images=3, mentioned=1.0, phrasings=1)),
    "half_two": NamedShape(2, TicketShape(images=3, mentioned=0.5, phrasings=1)),
    "one": NamedShape(1, TicketShape(images=2, mentioned=0.0)),
    "single": NamedShape(1, TicketShape(images=3, mentioned=1.0)),
    "two": NamedShape(2, TicketShape(images=3, mentioned=0.0)),
    "three": NamedShape(3, TicketShape(images=3, mentioned=0.0)),
    "half": NamedShape(3, TicketShape(images=4, mentioned=0.5)),
    "full": NamedShape(3, TicketShape(images=4, mentioned=1.0)),
    "calm": NamedShape(3, TicketShape(images=4, mentioned=1.0, distracted=0.0)),
    "pairs": NamedShape(3, TicketShape(images=3, sentences=2, mentioned=0.5)),
    "texts": NamedShape(3, TicketShape(images=2, sentences=3, mentioned=0.5)),
}
"""Those before `one` tell values nearly in the words of the rules.  From `one` on from easy to hard, but for `calm`,
which is `full` without distractors; `full` is the generator's default."""
