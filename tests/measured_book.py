"""A hand-made Book, which is what a small finished run has measured and decided, and the folder of such a run."""

from __future__ import annotations

import random
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from orchestrator.evolve.systems import PLAIN, Arm, Book, Member, MemberTest, System, SystemKind
from orchestrator.report.conclusion import report_of
from orchestrator.report.model import ReportFile, front_file
from orchestrator.report.statistics import Comparison, Measurement, correctness_change, non_inferiority
from orchestrator.runs.folder import OutputFolder
from tasks.records import JudgedAnswer

COUNTS = {"training": 200, "ordering": 100, "validation": 300, "test": 100}
ONE_SENTENCE, VECTOR, EVOLVED = "one sentence", "one sentence: log-odds x1", "g2_child3_mut"
MARGIN = 0.05
CLUSTERING = "5485e325ff4026217d30e6516416a3f9"


def measured(
    factor: float, lost: int = 0, cut: int = 0, seed: int = 1, count: int = 300, loops: int = 0
) -> Measurement:
    """`factor` times the plain model's tokens, give or take 10 %; in ten questions six are right.

    The first `lost` of the right answers are wrong, and the last `cut` answers are no whole ones.
    """
    rng = random.Random(f"{seed} {count}")
    right = [index % 10 < 6 for index in range(count)]
    for index in [index for index, is_right in enumerate(right) if is_right][:lost]:
        right[index] = False
    return Measurement(
        examples=tuple(f"q{index}" for index in range(count)),
        tokens=tuple(round(factor * (40 + index % 40) * rng.uniform(0.9, 1.1)) for index in range(count)),
        right=tuple(right),
        whole=tuple(index < count - cut for index in range(count)),
        loops=tuple(index < loops for index in range(count)),
    )


def system(name: str, kind: SystemKind, factor: float, sets: str, arm: str = PLAIN, **answers: int) -> System:
    """`sets`: the first letters of the sets that it was asked; answers: see `measured`, of 100 questions."""
    deltas = () if kind in ("plain", "prompt", "cut") else (1.5, -0.75, 0.0, -2.75, 0.5)
    asked: dict[str, Any] = {}
    for number, (which, count) in enumerate(COUNTS.items()):
        if which[:2] in sets.split():
            scaled = {key: value * count // 100 for key, value in answers.items() if key != "seed"}
            asked[which] = measured(factor, **scaled, seed=number + 10 * answers.get("seed", 0), count=count)
    prompt = "" if arm == PLAIN else f"Answer in {arm}."
    return System(name, kind, prompt, arm, deltas, CLUSTERING if deltas else "", **asked)


def book(*systems: System, winner: str = EVOLVED, passed: tuple[str, ...] = (EVOLVED,)) -> Book:
    """A run with the systems below, those of the same names replaced by `systems`.

    The validation set has tested those that passed, or else the first of the order.
    """
    known = Book(
        cap=128,
        arms=(Arm(PLAIN, "", "0"), Arm(ONE_SENTENCE, f"Answer in {ONE_SENTENCE}.", CLUSTERING)),
        systems=(
            system(PLAIN, "plain", 1.0, "tr or va te"),
            system(ONE_SENTENCE, "prompt", 0.7, "tr or", ONE_SENTENCE, lost=12, seed=1),
            system("80 words", "prompt", 1.4, "tr or", "80 words", seed=2),
            system(VECTOR, "vector", 0.6, "tr or va", ONE_SENTENCE, lost=3, seed=3),
            system(EVOLVED, "evolved", 0.4, "tr or va te", ONE_SENTENCE, seed=4),
            system("one sentence: random 3", "random", 0.35, "tr or", ONE_SENTENCE, lost=30, seed=5),
            replace(system("max_tokens 24", "cut", 0.41, "va te", cut=60, seed=6), max_tokens=24),
            replace(
                system("first sentence", "cut", 0.5, "va te", lost=15, seed=7),
                deltas=(1000.0, 0.0, 0.0, 0.0, 0.0),
                clustering=CLUSTERING,
            ),
        ),
        order=tuple(Member(name, 20.0, 0.6, -0.01) for name in (EVOLVED, VECTOR)),
        winner=winner,
        test_uses=1,
    ).with_systems(systems)
    tested = [one for one in map(known.system, passed or (EVOLVED,)) if one.validation]
    changes = [correctness_change(known.plain.on("validation").correct, one.on("validation").correct) for one in tested]
    tests = tuple(
        MemberTest(one.name, change, replace(non_inferiority(change, MARGIN), is_shown=bool(passed)))
        for one, change in zip(tested, changes, strict=True)
    )
    return replace(known, tests=tests)


def report(made: Book | None = None, run: str = "quiet-1") -> ReportFile:
    return report_of(run, made or book(), "shortest", MARGIN, seed=7)


def write_reported(folder: Path, made: Book | None = None) -> Path:
    """The run is named as the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    output, made = OutputFolder(folder), made or book()
    output.write_json("run.json", {"id": f"{folder.name}-1", "kind": "evolve", "folder": str(folder.resolve())})
    output.write("config", f'CONFIG_NGEN=3\nCONFIG_MARGIN="{MARGIN}"\nCONFIG_SEED=7\n')
    output.write_json("questions.json", {"test": {f"q{index}": f"{index}" for index in range(100)}})
    made.write(output)
    found = report(made, run=f"{folder.name}-1")
    output.write_json("report.json", asdict(found))
    output.write_json("front.json", asdict(front_file(found)))
    plain, contender = made.plain.on("test"), made.contender.on("test")
    comparison = Comparison("test set", _answers(plain, "before"), _answers(contender, "after"), made.contender.name)
    output.write_json("answers.json", [asdict(comparison)])
    return folder


def _answers(found: Measurement, text: str) -> tuple[JudgedAnswer, ...]:
    rows = zip(found.examples, found.tokens, found.right, found.whole, strict=True)
    return tuple(
        JudgedAnswer(example, tokens, right, f"{text} {example}\x1b[2J", f"question {example}", "2", "", whole)
        for example, tokens, right, whole in rows
    )
