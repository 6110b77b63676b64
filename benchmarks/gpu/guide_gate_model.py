"""The gate of `guide` with a real model: edits that are planted rules, or distractors' rules of the same form.

For each mission and some experiences to begin with, each edit adds one text.  Tickets are judged with eight candidates
under both; a third of them in turn are the held-out ones by which the gate decides, and what the edit is worth is the
rise of the mean score on the others.  Thresholds are those of configs/guide_gpu.yaml.  No reflector takes part.

`python benchmarks/gpu/guide_gate_model.py --model FOLDER --folder WORK --shape half`
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import yaml

from benchmarks import figures
from benchmarks.gpu.guide_asking import add_server_options, open_asking, spread, write_result
from benchmarks.gpu.guide_judging import JudgeUnit, judge, plan_of, sampled_scores
from benchmarks.gpu.guide_prompts import FORMS, WORDINGS, numbered, worded
from benchmarks.gpu.guide_runs import CONFIG
from benchmarks.gpu.guide_shapes import SHAPES
from orchestrator.guide.tickets.missions import PLANS
from tasks.guide.figures import share
from tasks.guide.gate import TicketScores, decide

FOLDS = 3
WORTH = 0.05  # a rise that the gate is to let through


@dataclass(frozen=True)
class Edit:
    """One text that is added to the experiences of a base.  `kind` is rule or distractor."""

    mission: int
    base: int
    kind: str
    name: str
    before: tuple[str, ...]
    text: str

    def unit(self, options: argparse.Namespace, *, is_edited: bool) -> JudgeUnit:
        texts = [*self.before, *([self.text] if is_edited else [])]
        name = f"{self.mission}/{self.base}/{self.name if is_edited else ''}"
        return JudgeUnit(
            name, options.shape, self.mission, options.seed, "gate", options.tickets, options.tickets,
            tuple(numbered(texts).items()),
            options.prompt,
        )  # fmt: skip


def edits_of(shape: str, bases: int, seed: int, wording: str = "plain") -> list[Edit]:
    """All edits of all missions in random order, those of the first base first.

    Base 0 has the initial experience; each further one has a planted rule and a distractor's beside it.
    """
    rng = random.Random(seed)
    edits = []
    for mission in range(len(PLANS)):
        plan = plan_of(shape, mission)
        for base in range(bases):
            held = {rng.choice(plan.rules).name, rng.choice(plan.distractors).name} if base else set()
            texts = [("rule", one.name, worded(one, wording, plan.language)) for one in plan.rules]
            texts += [("distractor", one.name, worded(one, wording, plan.language)) for one in plan.distractors]
            before = (plan.first, *[text for _, name, text in texts if name in held])
            edits += [
                Edit(mission, base, kind, f"{kind}-{name}", before, text)
                for kind, name, text in texts
                if name not in held
            ]
    rng.shuffle(edits)
    return sorted(edits, key=lambda edit: edit.base)


def decisions(
    before: Sequence[TicketScores], after: Sequence[TicketScores], bounds: Mapping[str, float], seed: int
) -> Iterator[dict[str, Any]]:
    """For each fold as the held-out tickets: what the gate decides, and the rise on the others."""
    for fold in range(FOLDS):
        held = range(fold, len(before), FOLDS)
        others = [place for place in range(len(before)) if place % FOLDS != fold]
        decision = decide(
            [before[i] for i in held],
            [after[i] for i in held],
            apply_if_delta=bounds["apply_if_delta"],
            min_probability=bounds["min_probability"],
            max_false_pass_rise=bounds["max_false_pass_rise"],
            seed=seed,
        )
        worth = sum(float(after[i].score - before[i].score) for i in others) / len(others)
        yield {"fold": fold, "worth": worth, **asdict(decision)}


def gate_bounds() -> dict[str, float]:
    settings = yaml.safe_load(CONFIG.read_text())
    holdout = settings["holdout"]
    return {
        "apply_if_delta": settings["reflection"]["apply_if_delta"],
        "min_probability": holdout["min_probability"],
        "max_false_pass_rise": holdout["max_false_pass_rise"],
    }


CLASSES = {
    "worth 5 points or more": (WORTH, 2.0),
    "0 to 5 points": (0.0, WORTH),
    "-5 to 0 points": (-WORTH, 0.0),
    "costs 5 points or more": (-2.0, -WORTH),
}


def class_rows(records: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    """How often the gate applies edits, by what they are worth on other tickets; and by kind."""
    groups = {name: [one for one in records if low <= one["worth"] < high] for name, (low, high) in CLASSES.items()}
    groups |= {f"all {kind}s": [one for one in records if one["kind"] == kind] for kind in ("rule", "distractor")}
    for name, found in groups.items():
        applied = share(sum(one["apply"] for one in found), len(found))
        edits = {(one["mission"], one["base"], one["name"]) for one in found}
        worth = f"{100 * sum(one['worth'] for one in found) / len(found):+.1f}" if found else "-"
        cells = [name, str(len(edits)), str(len(found)), str(sum(one["apply"] for one in found)), worth]
        if applied.value is None or applied.low is None or applied.high is None:
            yield [*cells, "-", "-"]
        else:
            yield [*cells, f"{100 * applied.value:.1f}", f"{100 * applied.low:.1f} to {100 * applied.high:.1f}"]


HEAD = ("edits", "number", "decisions", "applied", "mean worth", "%", "95 %")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_server_options(parser)
    parser.add_argument("--shape", choices=list(SHAPES), default="half", help="of the tickets (half)")
    parser.add_argument("--prompt", choices=FORMS, default="plain", help="sampler.prompt (plain)")
    parser.add_argument("--wording", choices=WORDINGS, default="plain", help="of rules (plain)")
    parser.add_argument("--tickets", type=int, default=384, help="of each mission, a third of them held out (384)")
    parser.add_argument("--bases", type=int, default=2, help="experiences to begin with, of each mission (2)")
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=1e9, help="ask nothing new after so long")
    parser.add_argument("--result", default="gpu_guide_gate", help="written to benchmarks/results/RESULT.json")
    options = parser.parse_args()
    options.cap = 128
    edits = edits_of(options.shape, options.bases, options.seed, options.wording)
    units = {unit.name: unit for edit in edits for unit in (edit.unit(options, is_edited=e) for e in (False, True))}
    judged: dict[str, Mapping[str, Any]] = {}
    bounds = gate_bounds()
    decided: dict[Edit, list[dict[str, Any]]] = {}
    with open_asking(options) as (asking, version):
        started = time.monotonic()
        for unit, found in spread(judge, asking, list(units.values()), options.processes):
            judged[unit.name] = found
            for edit in edits:
                decided[edit] = decided.get(edit) or records_of(edit, judged, bounds, options)
            write(options, version, bounds, flat(decided), time.monotonic() - started)
            if time.monotonic() - started > options.seconds:
                break
        seconds = time.monotonic() - started
    records = flat(decided)
    write(options, version, bounds, records, seconds)
    print(f"{len(judged)} of {len(units)} sets of experiences in {seconds:.0f} s")
    print(figures.table(HEAD, list(class_rows(records))))
    return 0


def records_of(
    edit: Edit, judged: Mapping[str, Mapping[str, Any]], bounds: Mapping[str, float], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """The decisions on an edit, none before both sides are judged."""
    names = [edit.unit(options, is_edited=is_edited).name for is_edited in (False, True)]
    if not all(name in judged for name in names):
        return []
    before, after = (sampled_scores(judged[name]) for name in names)
    about = {"mission": edit.mission, "base": edit.base, "kind": edit.kind, "name": edit.name}
    return [about | one for one in decisions(before, after, bounds, options.seed)]


def flat(decided: Mapping[Edit, Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [record for records in decided.values() for record in records]


def write(
    options: argparse.Namespace, version: str, bounds: Mapping[str, float], records: Sequence[Any], seconds: float
) -> None:
    table = list(class_rows(records))
    write_result(options, version, seconds=seconds, bounds=dict(bounds), table=table, decisions=list(records))


if __name__ == "__main__":
    sys.exit(main())
