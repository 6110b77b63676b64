"""Replies of critic and reflector that cannot be used: so many in a row park the run.

A reflector that is never understood would otherwise look like one that has nothing to say.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tasks.guide.jobs import AskedFor
from tasks.guide.replies import Rejected

MOST_REJECTED = 5
"""Replies in a row that cannot be used, before the run parks."""


class TooManyRejected(Exception):
    """So many replies in a row could not be used that the run parks.  `replies` counts those of the mission so far."""

    def __init__(self, message: str, replies: int) -> None:
        super().__init__(message)
        self.replies = replies


@dataclass
class RejectionCounter:
    """The unusable replies in a row of one mission, of critic and reflector each.

    `parked_at` are the counts of replies at which it has parked before: from there on it begins anew, so that a retry
    goes on.
    """

    mission: str
    parked_at: frozenset[int]
    replies: int = 0
    in_a_row: Counter[AskedFor] = field(default_factory=Counter)

    def add(self, asked_for: AskedFor, rejected: Rejected | None) -> None:
        """Raises: TooManyRejected."""
        self.replies += 1
        self.in_a_row[asked_for] = self.in_a_row[asked_for] + 1 if rejected else 0
        if rejected and self.in_a_row[asked_for] >= MOST_REJECTED:
            if self.replies not in self.parked_at:
                raise TooManyRejected(
                    f"mission {self.mission}: {MOST_REJECTED} replies in a row could not be used as a {asked_for}, the "
                    f"last one because {rejected.reason}",
                    self.replies,
                )
            self.in_a_row[asked_for] = 0
