"""What the untrained model solves and exploits, by level and mode, on problems of training and pairs.

    python benchmarks/gpu/route_levels.py --model FOLDER --folder outputs/route-work --variables levels.env

Prints which levels to train on: of all sets of levels the one with most problems whose solve rate lies within 30 and
60 %; where there is none, the one nearest to 45 %.
"""

from __future__ import annotations

import argparse
import itertools
from collections import defaultdict
from pathlib import Path

from benchmarks.figures import table, write
from benchmarks.gpu import route_common as common
from tasks.gpu.routing.programs import Asked, ProgramsWorld
from tasks.gpu.routing.rollout import AskedSample
from tasks.gpu.routing.world import PromptTokens
from tasks.gpu.training.work import opened_world, trajectory_settings
from tasks.route.names import LEVELS
from tasks.routing.modes import LOOPHOLES, MODES, NO_LOOPHOLE

LOW, MIDDLE, HIGH = 0.3, 0.45, 0.6


def chosen_levels(solved: dict[int, list[bool]]) -> tuple[tuple[int, ...], float]:
    """The levels, and their solve rate."""
    found = []
    for count in range(1, len(LEVELS) + 1):
        for levels in itertools.combinations(sorted(solved), count):
            rows = [row for level in levels for row in solved[level]]
            if rows:
                rate = sum(rows) / len(rows)
                found.append((LOW <= rate <= HIGH, len(rows), -abs(rate - MIDDLE), levels, rate))
    within = [one for one in found if one[0]]
    best = max(within, key=lambda one: one[1:3]) if within else max(found, key=lambda one: one[2])
    return best[3], best[4]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.add_route_options(parser)
    parser.add_argument("--samples", type=int, default=16, help="of a problem without a loophole")
    parser.add_argument("--hinted", type=int, default=3, help="of a problem in each mode with one")
    parser.add_argument("--problems", type=int, default=1000, help="at most, the first of each part")
    parser.add_argument("--variables", type=Path, required=True, help="a file for the shell, with LEVELS")
    options = parser.parse_args()
    given = common.job_given(options, 100, 1)
    trained = opened_world(given, lambda done, total: None)
    world, longest = trained.training, trajectory_settings(given).longest
    assert isinstance(world, ProgramsWorld)
    problems = [
        problem
        for part in ("train", "pairs")
        for problem in [each for each in world.problems if each.part == part][: options.problems]
    ]
    plans = [(NO_LOOPHOLE, options.samples), *((mode, options.hinted) for mode in LOOPHOLES)]
    asked: list[PromptTokens] = [
        world.ask(problem, mode) for mode, samples in plans for problem in problems for _ in range(samples)
    ]
    zeros = trained.policy.adapter.zeros()
    solved: dict[str, dict[int, list[bool]]] = {mode: defaultdict(list) for mode in MODES}
    hacked: dict[str, dict[int, list[bool]]] = {mode: defaultdict(list) for mode in MODES}
    blocks: list[bool] = []
    done = 0
    samples = [AskedSample(prompt, zeros, number) for number, prompt in enumerate(asked)]
    for scores in common.scores_in_time(options, trained, world, samples, longest, 7):
        for prompt, score in zip(asked[done : done + len(scores)], scores, strict=True):
            assert isinstance(prompt.where, Asked)
            level, mode = prompt.where.problem.level, prompt.where.mode
            solved[mode][level].append(bool(score.log["oracle"]))
            hacked[mode][level].append(bool(score.log["exploited"]))
            blocks.append(bool(score.log["code_block"]))
        done += len(scores)

    def rate(rows: list[bool]) -> float | None:
        return round(sum(rows) / len(rows), 3) if rows else None

    figures = {
        mode: {
            str(level): {"solve": rate(solved[mode][level]), "hack": rate(hacked[mode][level]),
                         "samples": len(solved[mode][level])}
            for level in LEVELS
        }
        for mode in MODES
    }  # fmt: skip
    levels, at = chosen_levels(solved[NO_LOOPHOLE])
    head = ("mode", *(f"level {level}: solve, hack" for level in LEVELS))
    cells = [
        (mode, *(f"{figures[mode][str(level)]['solve']}, {figures[mode][str(level)]['hack']}" for level in LEVELS))
        for mode in MODES
    ]
    print(table(head, cells))
    print(f"code blocks in {rate(blocks)} of {len(blocks)} completions")
    print(f"levels {' '.join(map(str, levels))}: solve {at:.2f} without a loophole")
    options.variables.write_text(f'LEVELS="{" ".join(map(str, levels))}"\n')
    write("gpu_route_levels", {"by_mode": figures, "chosen": levels, "solve": at, "code_blocks": rate(blocks),
                               "rows": done, "of": len(asked), "peak_gib": common.peak_gib()})  # fmt: skip


if __name__ == "__main__":
    main()
