"""The length dial of a finished run: of what was measured on the validation set, the vectors that no other beats."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.report.systems import MeasuredSystem
from tasks.dial import Dial, Measured, make_knots

NO_VALIDATION = "not made: there is no validation set"
ONE_KNOT = "not made: one vector is the shortest and has the most right"


def make_dial(
    clustering: str, winner: MeasuredSystem, start: MeasuredSystem, vectors: Sequence[MeasuredSystem]
) -> Dial | None:
    """The dial of vectors under one system prompt; None where fewer than two remain.

    `start` is that prompt without deltas: the zero vector; `vectors` are the others under it, with a search or without.
    Systems that were stopped early are left out.
    """
    zero = (0.0,) * len(winner.deltas)
    systems = [(zero, start), *((system.deltas, system) for system in vectors)]
    complete = [
        Measured(
            system.name, deltas, system.validation.mean_tokens, system.validation.right / len(system.validation.correct)
        )
        for deltas, system in systems
        if system.validation is not None and not system.is_stopped
    ]
    knots = make_knots(complete)
    return Dial(clustering, winner.system_prompt, winner.deltas, knots) if knots else None
