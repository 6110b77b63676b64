"""A batch whose labels are all flipped: how often the gate lets through what the model then proposes.

Each seed draws a mission's batch of 32 tickets, flips their labels, and asks the model as critic and reflector for one
proposal, from the initial experience or from that and the planted rules (`--bases`).  It is judged on held-out tickets
with true labels, by which the gate decides, and on test tickets: worse is fewer right greedy verdicts than before.  An
ungated run takes each proposal whose operations are valid.

`python benchmarks/gpu/guide_flipped.py --model FOLDER --folder WORK --shape half --seeds 100`
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import figures
from benchmarks.gpu.guide_asking import Asking, add_server_options, open_asking, spread, write_result
from benchmarks.gpu.guide_direct import DirectAnswers
from benchmarks.gpu.guide_gate_model import gate_bounds
from benchmarks.gpu.guide_judging import JudgeUnit, generated, greedy_scores, judge, plan_of, sampled_scores
from benchmarks.gpu.guide_prompts import FORMS, WORDINGS, experiences_of
from benchmarks.gpu.guide_runs import Values, overrides_of, run_settings
from benchmarks.gpu.guide_shapes import SHAPES
from orchestrator.guide.build import guide_target
from orchestrator.guide.findings import find_in_rollout
from orchestrator.guide.ingest import MissionTickets
from orchestrator.guide.options import GuideOptions
from orchestrator.guide.prompt_files import Templates
from orchestrator.guide.reflecting import MissionReflector, Proposed
from orchestrator.guide.rejections import RejectionCounter
from orchestrator.guide.rollouts import RolledOut, Rollout
from orchestrator.guide.settings import guide_settings_from
from orchestrator.guide.steps import MissionSetup, Steps
from orchestrator.guide.tally import Tally
from orchestrator.guide.tickets.matcher import recalled_rules
from orchestrator.guide.tickets.missions import PLANS
from tasks.guide.context import GuideContext
from tasks.guide.eligibility import pack
from tasks.guide.experiences import Guidance, first_guidance
from tasks.guide.figures import share
from tasks.guide.gate import TicketScores, decide
from tasks.guide.operations import apply_operations
from tasks.guide.prompting import PromptForm
from tasks.guide.ticket import Ticket

BATCH = 32


@dataclass(frozen=True)
class FlippedUnit:
    """One seed.  `settings` are those of a run, of which this is one batch; `base` is `initial` or `planted`."""

    shape: str
    mission: int
    seed: int
    base: str
    is_flipped: bool
    holdout: int
    test: int
    prompt: PromptForm
    wording: str
    settings: str  # JSON


def flipped(ticket: Ticket) -> Ticket:
    return replace(ticket, label="fail" if ticket.label == "pass" else "pass")


def setup_of(unit: FlippedUnit, values: Values, tickets: Sequence[Ticket], key: str) -> MissionSetup:
    settings = guide_settings_from(values)
    context = GuideContext(target=guide_target(settings, GuideOptions()), server={"model": key})
    plan = plan_of(unit.shape, unit.mission)
    return MissionSetup(MissionTickets(plan.name, tuple(tickets), (), ()), settings, context)


def propose_on(setup: MissionSetup, guidance: Guidance) -> Steps[tuple[RolledOut, Sequence[str], Proposed | None]]:
    """One batch of all training tickets: what was answered, the tickets shown, and the proposal if there is any."""
    rolled = Rollout(setup, "learning", guidance.experiences, guidance.step, setup.tickets.training, 1, 1)
    results = yield rolled.requests
    found = rolled.read(results)
    findings = yield from find_in_rollout(found, "step1")
    reflector = MissionReflector(
        setup,
        Templates.read(setup.settings),
        Tally(setup.settings, setup.tickets),
        _Counting(setup.mission, frozenset()),
    )
    criticised = yield from reflector.criticise(found, findings)
    shown = pack(findings.screening.bundle, setup.settings.reflection.batch_size)
    if not shown:
        return found, shown, None
    proposed = yield from reflector.propose(guidance, found, findings, criticised, shown, 1)
    return found, shown, proposed


class _Counting(RejectionCounter):
    """Counts unusable replies, and parks nothing: each seed stands alone."""

    def add(self, asked_for: Any, rejected: Any) -> None:
        self.in_a_row[asked_for] += rejected is not None


def work(asking: Asking, unit: FlippedUnit) -> Values:
    """What became of one seed."""
    plan = plan_of(unit.shape, unit.mission)
    training = generated(unit.shape, unit.mission, BATCH, unit.seed, "train")
    shown_tickets = [flipped(ticket) if unit.is_flipped else ticket for ticket in training]
    setup = setup_of(unit, json.loads(unit.settings), shown_tickets, asking.model)
    before = experiences_of(unit.base, plan, unit.wording)
    guidance = first_guidance(before, "2025-11-03T00:00:00Z")
    direct = DirectAnswers(asking)
    _, shown, proposed = direct.drive(propose_on(setup, guidance))
    if proposed is None or proposed.proposal is None:
        reason = proposed.rejected.reason if proposed and proposed.rejected else "nothing to reflect on"
        return {"outcome": "rejected" if proposed else "ineligible", "reason": reason}
    by_id = {ticket.group_id: ticket for ticket in shown_tickets}
    bundle = [by_id[group_id] for group_id in shown]
    applied = apply_operations(
        before,
        guidance.metadata.highest,
        proposed.proposal.operations,
        max_operations=setup.settings.reflection.max_operations,
        cap_left=setup.settings.reflection.change_cap_per_epoch,
        group_ids=[ticket.group_id for ticket in bundle],
        ticket_texts=[text for ticket in bundle for text in ticket.per_image.values()],
    )
    texts = [operation.text for operation in proposed.proposal.operations if operation.text]
    told = {"texts": texts, "rules": sorted(recalled_rules(plan, texts))}
    if proposed.proposal.action == "noop" or not applied.accepted:
        reasons = [reason for _, reason in applied.rejected]
        return {"outcome": "noop" if proposed.proposal.action == "noop" else "invalid", "reason": reasons, **told}
    if proposed.proposal.uncertainty_note and not setup.settings.reflection.allow_uncertain:
        return {"outcome": "uncertain", "reason": proposed.proposal.uncertainty_note, **told}
    scores = {
        (part, side): scored(asking, unit, part, dict(experiences))
        for part in ("held", "test")
        for side, experiences in (("before", before), ("after", applied.experiences))
    }
    decision = decide(scores["held", "before"], scores["held", "after"], seed=unit.seed, **gate_bounds())
    rises = [new.score - old.score for old, new in zip(scores["test", "before"], scores["test", "after"], strict=True)]
    return {
        "outcome": "decided",
        "experiences": dict(applied.experiences),
        "decision": asdict(decision),
        "worth": float(sum(rises) / len(rises)),
        **told,
    }


def scored(asking: Asking, unit: FlippedUnit, part: str, experiences: Mapping[str, str]) -> tuple[TicketScores, ...]:
    """The held-out tickets with all candidates, the test tickets with the greedy one."""
    count, sampled = (unit.holdout, unit.holdout) if part == "held" else (unit.test, 0)
    given = tuple(experiences.items())
    judged = judge(
        asking,
        JudgeUnit("", unit.shape, unit.mission, unit.seed, part, count, sampled, given, unit.prompt),
    )
    return sampled_scores(judged) if sampled else greedy_scores(judged)


def outcome_rows(records: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    """For each base: the outcomes, and how often an edit that is worse on test tickets is taken, gated and ungated."""
    for base in sorted({one["unit"]["base"] for one in records}):
        found = [one["found"] for one in records if one["unit"]["base"] == base]
        decided = [one for one in found if one["outcome"] == "decided"]
        worse = [one for one in decided if one["worth"] < 0]
        outcomes = Counter(one["outcome"] for one in found)
        taken = sum(one["decision"]["apply"] for one in worse)
        gated, ungated = share(taken, len(found)), share(len(worse), len(found))
        yield [
            base,
            str(len(found)),
            " ".join(f"{count} {name}" for name, count in sorted(outcomes.items())),
            str(len(worse)),
            _with_interval(ungated.value, ungated.low, ungated.high),
            f"{taken}",
            _with_interval(gated.value, gated.low, gated.high),
            f"{taken} of {len(worse)}",
            f"{sum(one['decision']['apply'] for one in decided)} of {len(decided)}",
        ]


def _with_interval(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return "-"
    return f"{100 * value:.0f} % ({100 * low:.0f} to {100 * high:.0f})"


HEAD = (
    "base",
    "seeds",
    "outcomes",
    "worse edits",
    "taken ungated",
    "worse taken",
    "of all seeds",
    "of the worse",
    "applied",
)


def units_of(options: argparse.Namespace) -> list[FlippedUnit]:
    units = []
    for number in range(options.seeds):
        seed, mission = options.first_seed + number, number % len(PLANS)
        for base in options.bases:
            options.missions = [mission]
            values = run_settings(
                options,
                Path("none"),
                Path("none"),
                f"seed-{seed}",
                seed,
                overrides_of(options),
            )
            units.append(
                FlippedUnit(
                    options.shape,
                    mission,
                    seed,
                    base,
                    not options.true_labels,
                    options.holdout,
                    options.test,
                    options.prompt,
                    options.wording,
                    json.dumps(values),
                )
            )
    return units


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_server_options(parser)
    parser.add_argument("--shape", choices=list(SHAPES), default="half", help="of the tickets (half)")
    parser.add_argument("--prompt", choices=FORMS, default="plain", help="sampler.prompt (plain)")
    parser.add_argument("--wording", choices=WORDINGS, default="plain", help="of the planted rules (plain)")
    parser.add_argument("--seeds", type=int, default=100, help="so many, each of one mission in turn (100)")
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--bases", choices=("initial", "planted"), nargs="+", default=["initial"])
    parser.add_argument("--holdout", type=int, default=128, help="tickets by which the gate decides (128)")
    parser.add_argument("--test", type=int, default=200, help="tickets that say whether an edit is worse (200)")
    parser.add_argument("--true-labels", action="store_true", help="flip nothing, to compare")
    parser.add_argument("--set", action="append", default=[], help="a setting, as section.key=VALUE")
    parser.add_argument("--seconds", type=float, default=1e9, help="ask nothing new after so long")
    parser.add_argument("--result", default="gpu_guide_flipped", help="written to benchmarks/results/RESULT.json")
    options = parser.parse_args()
    options.cap = 128
    records: list[Values] = []
    with open_asking(options) as (asking, version):
        started = time.monotonic()
        for unit, found in spread(work, asking, units_of(options), options.processes):
            told = {name: value for name, value in asdict(unit).items() if name != "settings"}
            records.append({"unit": told, "found": found})
            write_result(options, version, table=list(outcome_rows(records)), seeds=list(records))
            if time.monotonic() - started > options.seconds:
                break
        seconds = time.monotonic() - started
    print(f"{len(records)} seeds in {seconds:.0f} s")
    print(figures.table(HEAD, list(outcome_rows(records))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
