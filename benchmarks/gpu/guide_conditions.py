"""What learned experiences are worth on new tickets, beside none, the initial one, tips, others' and the planted rules.

Reads results of guide_learning.py.  Each run has test tickets of its own seed, which no gate has seen.  Greedy
verdicts of all of them, and eight candidates of the first `--sampled`: majority, pass@8, and the choice that knows
the label.  Gains are paired by ticket; their intervals come from a bootstrap over missions of runs and over tickets
within them.  `other` are the rules that the same run has learned for the other mission of the language; `tips` are as
many general ones, written without looking at tickets, as were learned.  Written as the answers arrive.

`python benchmarks/gpu/guide_conditions.py --model FOLDER --folder WORK --learned gpu_guide_learning`
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from typing import Any

from benchmarks import figures
from benchmarks.gpu.guide_asking import add_server_options, open_asking, spread, write_result
from benchmarks.gpu.guide_judging import (
    JudgeUnit,
    clustered_mean,
    greedy_scores,
    judge,
    plan_of,
    sampled_scores,
)
from benchmarks.gpu.guide_prompts import WORDINGS, experiences_of, numbered, other_plan
from benchmarks.gpu.guide_tables import shown
from orchestrator.guide.tickets.missions import PLANS
from tasks.guide.figures import balanced_accuracy, false_pass_rate, majority_pairs, pass_at
from tasks.guide.gate import TicketScores
from tasks.guide.prompting import PromptForm
from tasks.guide.selection import majority
from tasks.guide.verdict_lines import Verdict

CONDITIONS = ("none", "initial", "tips", "other", "learned", "planted")
Place = tuple[int, int]  # seed and mission


@dataclass(frozen=True)
class Learned:
    """What one mission of one run has learned."""

    seed: int
    mission: int
    experiences: Mapping[str, str]


def read_learned(results: Sequence[str]) -> tuple[str, PromptForm, list[Learned]]:
    """The shape of the tickets, the form of the prompt, and all missions of the runs in these results that have begun.

    Raises: ValueError for results with several shapes or forms.
    """
    numbers = {plan.name: number for number, plan in enumerate(PLANS)}
    shapes: set[tuple[str, PromptForm]] = set()
    learned = []
    for name in results:
        found = json.loads((figures.FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        shapes.add((found["shape"], found["prompt"]))
        for seed, run in found["runs"].items():
            for mission, one in run["missions"].items():
                if one["experiences"]:
                    learned.append(Learned(int(seed), numbers[mission], one["experiences"]))
    if len(shapes) != 1:
        raise ValueError(f"runs of one shape of tickets and one prompt are compared, and not of {sorted(shapes)}")
    return *shapes.pop(), learned


def experiences_under(
    condition: str, one: Learned, all_learned: Sequence[Learned], shape: str, wording: str = "plain"
) -> dict[str, str]:
    """The experiences of a condition for a mission of a run."""
    plan = plan_of(shape, one.mission)
    if condition == "learned":
        return dict(one.experiences)
    if condition == "other":
        code = other_plan(plan).code
        others = [o for o in all_learned if o.seed == one.seed and PLANS[o.mission].code == code]
        return dict(others[0].experiences) if others else {}
    if condition == "tips":
        other_tips = [*plan.tips, *other_plan(plan).tips]
        return numbered([plan.first, *islice(cycle(other_tips), max(1, len(one.experiences) - 1))])
    return experiences_of(condition, plan, wording)


def units_of(
    learned: Sequence[Learned], shape: str, prompt: PromptForm, options: argparse.Namespace
) -> list[JudgeUnit]:
    """Condition by condition within each run, so that a cut leaves whole runs."""
    return [
        JudgeUnit(
            condition, shape, one.mission, one.seed, "test", options.test, options.sampled, tuple(found.items()), prompt
        )
        for one in learned
        for condition in CONDITIONS
        if (found := experiences_under(condition, one, learned, shape, options.wording)) or condition == "none"
    ]


Judged = dict[str, dict[Place, Mapping[str, Any]]]
"""By condition and place, what `judge` has found."""

Way = str
WAYS: Sequence[Way] = ("greedy", "majority", "pass@8", "label_first")


def ticket_scores(found: Mapping[str, Any], way: Way) -> tuple[TicketScores, ...]:
    return greedy_scores(found) if way == "greedy" else sampled_scores(found)


def right_of(ticket: TicketScores, way: Way) -> float:
    """What a ticket counts: whether its verdict is right; for the last two, whether any candidate is."""
    if way == "greedy":
        return float(ticket.candidates[0] == ticket.label)
    if way == "majority":
        return float(majority(ticket.candidates) == ticket.label)
    return float(ticket.label in ticket.candidates)


def gains(after: Mapping[Place, Any], before: Mapping[Place, Any], way: Way) -> list[list[float]]:
    """For each mission of a run the rises of its tickets; each label weighs half."""
    found = []
    for place in sorted(after.keys() & before.keys()):
        pairs = list(zip(ticket_scores(after[place], way), ticket_scores(before[place], way), strict=True))
        counts = {label: sum(new.label == label for new, _ in pairs) for label in ("pass", "fail")}
        found.append(
            [
                (right_of(new, way) - right_of(old, way)) * len(pairs) / (2 * counts[new.label])
                for new, old in pairs
                if min(counts.values())
            ]
        )
    return found


def pooled(found: Mapping[Place, Any], way: Way) -> list[TicketScores]:
    return [ticket for one in found.values() for ticket in ticket_scores(one, way)]


def balanced(found: Mapping[Place, Any], way: Way) -> Any:
    """The balanced accuracy in one way, over all tickets."""
    tickets = pooled(found, way)
    if way == "majority":
        return balanced_accuracy(majority_pairs(tickets))
    if way == "greedy":
        return balanced_accuracy([(ticket.label, ticket.candidates[0]) for ticket in tickets])
    chosen: list[tuple[Verdict, Verdict | None]] = [
        (ticket.label, ticket.label if ticket.label in ticket.candidates else majority(ticket.candidates))
        for ticket in tickets
    ]
    return balanced_accuracy(chosen)


def condition_rows(judged: Judged) -> Iterator[list[str]]:
    """For each condition the four ways, false passes by greedy and majority, and the gain of greedy over none."""
    for condition in CONDITIONS:
        if not (found := judged.get(condition)):
            continue
        greedy, sampled = pooled(found, "greedy"), pooled(found, "majority")
        whole = pass_at(8, sampled) if sampled and len(sampled[0].candidates) >= 8 else None
        yield [
            condition,
            str(len(found)),
            str(len(greedy)),
            shown(balanced(found, "greedy")),
            shown(balanced(found, "majority")),
            shown(whole) if whole else "-",
            shown(balanced(found, "label_first")),
            shown(false_pass_rate([(ticket.label, ticket.candidates[0]) for ticket in greedy])),
            shown(false_pass_rate(majority_pairs(sampled))),
            shown(clustered_mean(gains(found, judged.get("none", {}), "greedy")), is_gain=True),
        ]


def gain_rows(judged: Judged) -> Iterator[list[str]]:
    """Learned against each other condition, in each way, and the share of the possible gain."""
    for way in ("greedy", "majority", "pass@8"):
        for rival in CONDITIONS:
            if rival != "learned" and rival in judged and "learned" in judged:
                measure = clustered_mean(gains(judged["learned"], judged[rival], way))
                yield [way, f"learned - {rival}", str(measure.count), shown(measure, is_gain=True)]
        share_found = possible_share(judged, way)
        yield [way, "share of the possible gain", "", "-" if share_found is None else f"{100 * share_found:.0f} %"]


def possible_share(judged: Judged, way: Way) -> float | None:
    """(learned - better of none and initial) / (planted - that), None where there is nothing to gain."""
    if not all(judged.get(name) for name in ("none", "initial", "learned", "planted")):
        return None
    value = {name: balanced(judged[name], way).value for name in ("none", "initial", "learned", "planted")}
    start = max(value["none"], value["initial"])
    return (value["learned"] - start) / (value["planted"] - start) if value["planted"] > start else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_server_options(parser)
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--learned", nargs="+", help="results of guide_learning.py, without .json")
    asked.add_argument("--join", nargs="+", help="results of this script, whose tables are made together; asks nothing")
    parser.add_argument("--wording", choices=WORDINGS, default="plain", help="of the planted rules (plain)")
    parser.add_argument("--test", type=int, default=300, help="test tickets of each mission of a run (300)")
    parser.add_argument("--sampled", type=int, default=100, help="of them with eight candidates (100)")
    parser.add_argument("--seconds", type=float, default=1e9, help="ask nothing new after so long")
    parser.add_argument("--result", default="gpu_guide_conditions", help="written to benchmarks/results/RESULT.json")
    options = parser.parse_args()
    options.cap = 128
    if options.join:
        print_tables(join(options.join, options.result))
        return 0
    shape, prompt, learned = read_learned(options.learned)
    judged: Judged = {}
    records: list[dict[str, Any]] = []
    with open_asking(options) as (asking, version):
        started = time.monotonic()
        for unit, found in spread(judge, asking, units_of(learned, shape, prompt, options), options.processes):
            judged.setdefault(unit.name, {})[(unit.seed, unit.mission)] = found
            records.append({"unit": asdict(unit), "found": found})
            write(options, version, records, judged, is_done=False)
            if time.monotonic() - started > options.seconds:
                break
        seconds = time.monotonic() - started
    write(options, version, records, judged, is_done=True)
    print(f"{len(records)} units in {seconds:.0f} s")
    print_tables(judged)
    return 0


def print_tables(judged: Judged) -> None:
    print(figures.table(CONDITION_HEAD.split(), list(condition_rows(judged))))
    print(figures.table(GAIN_HEAD, list(gain_rows(judged))))


def join(results: Sequence[str], result: str) -> Judged:
    """All units of some results in one, with the commands of each."""
    parts = [json.loads((figures.FOLDER / f"{name}.json").read_text(encoding="utf-8")) for name in results]
    units = [unit for part in parts for unit in part["units"]]
    judged: Judged = {}
    for one in units:
        unit = one["unit"]
        judged.setdefault(unit["name"], {})[(unit["seed"], unit["mission"])] = one["found"]
    commands = [part["command"] for part in parts]
    figures.write(result, {**parts[0], "command": commands, "tables": tables_of(judged), "units": units})
    return judged


CONDITION_HEAD = "condition missions tickets greedy majority pass@8 label_first false-pass fp-majority greedy-over-none"
GAIN_HEAD = ("way", "gain", "missions", "points")


def tables_of(judged: Judged) -> dict[str, Any]:
    return {"conditions": list(condition_rows(judged)), "gains": list(gain_rows(judged))}


def write(options: argparse.Namespace, version: str, records: Sequence[Any], judged: Judged, *, is_done: bool) -> None:
    tables = tables_of(judged) if is_done else {}
    write_result(options, version, tables=tables, units=list(records))


if __name__ == "__main__":
    sys.exit(main())
