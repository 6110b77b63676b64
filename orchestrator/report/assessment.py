"""All that a report says about the measured systems: which won, against what, and what that shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.report.conclusion import Conclusion, conclude
from orchestrator.report.inference import NoiseFloor, noise_floor
from orchestrator.report.pairwise import Pairwise, compare
from orchestrator.report.systems import MeasuredSystem, SystemKind

RIVALS: tuple[SystemKind, ...] = ("prompt", "vector")


@dataclass(frozen=True)
class Assessment:
    """The measured systems of a run with the conclusion.

    `start` names the system prompt that the search started from.  `over_plain` has, by name, each system but the plain
    one against the plain model, on the conclusion's set; the p values are not corrected for their number.  `test_uses`
    counts the winners of runs that have been tested on these questions, this one included.  `choices` says what was
    chosen by which set.
    """

    run: str
    systems: tuple[MeasuredSystem, ...]
    plain: MeasuredSystem
    winner: MeasuredSystem
    start: str
    margin: float
    seed: int
    test_uses: int
    conclusion: Conclusion
    over_plain: Mapping[str, Pairwise]
    noise: NoiseFloor | None = None
    choices: Mapping[str, str] = field(default_factory=dict)

    @property
    def rivals(self) -> list[MeasuredSystem]:
        """The prompts and the vectors without search, but for one that is the winner."""
        return [system for system in self.systems if system.kind in RIVALS and system is not self.winner]


def assess(
    run: str,
    systems: Sequence[MeasuredSystem],
    winner: str,
    start: str,
    margin: float,
    seed: int,
    test_uses: int = 0,
    choices: Mapping[str, str] | None = None,
) -> Assessment:
    """Compare the winner with the plain model and all rivals (prompts, vectors without search).

    winner: the name of the system that was chosen on the validation set, an evolved one or what the search started
    from; margin: a share (0.03); `choices`: see `Assessment`, the choice of the winner is added.
    """
    plain = next(system for system in systems if system.kind == "plain")
    best = next(system for system in systems if system.name == winner)
    noise = noise_from_repeats(best)
    rivals = [system for system in systems if system.kind in RIVALS]
    conclusion = conclude(plain, best, rivals, margin, seed, noise)
    return Assessment(
        run=run,
        systems=tuple(systems),
        plain=plain,
        winner=best,
        start=start,
        margin=margin,
        seed=seed,
        test_uses=test_uses,
        conclusion=conclusion,
        over_plain=_over_plain(plain, systems, conclusion, margin, seed),
        noise=noise,
        choices={**(choices or {}), "winner": "validation"},
    )


def noise_from_repeats(system: MeasuredSystem) -> NoiseFloor | None:
    """The noise floor from the repeats of a system on the validation set; None where it was measured once."""
    if system.validation is None or not system.repeats:
        return None
    runs = [system.validation, *(repeat.on(system.validation.examples) for repeat in system.repeats)]
    return noise_floor([run.tokens for run in runs], [run.correct for run in runs])


def _over_plain(
    plain: MeasuredSystem, systems: Sequence[MeasuredSystem], conclusion: Conclusion, margin: float, seed: int
) -> dict[str, Pairwise]:
    before = plain.measured_on(conclusion.measured_on)
    pairs = {}
    for system in systems:
        after = system.measured_on(conclusion.measured_on)
        if system is not plain and before is not None and after is not None:
            pairs[system.name] = compare(plain, before, after, margin, seed)
    return pairs
