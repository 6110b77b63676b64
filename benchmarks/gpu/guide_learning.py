"""What a model learns of planted rules: runs of `orchestrator guide` on a farm, and their guidance on new tickets.

Each seed is one run over all missions, with tickets of its own.  The model is critic and reflector itself.  With
`--epochs 1 2` a run of one epoch is made first, and then, where as much time is left as it took, one of two, which has
the answers of the first epoch from the store; the longest that has ended counts.  `--seconds` bounds the runs: where
even the first is cut, it counts with the guidance that it has by then.  Each seed's record is written when a run has
ended; `guide_conditions.py` judges test tickets with what was learned.

`python benchmarks/gpu/guide_learning.py --model FOLDER --folder WORK --shape half --seeds 11 12`
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import figures
from benchmarks.gpu.guide_asking import add_server_options, open_asking, write_result
from benchmarks.gpu.guide_prompts import FORMS
from benchmarks.gpu.guide_runs import (
    RunPlace,
    Values,
    guide_farm,
    json_lines,
    learned_experiences,
    overrides_of,
    plans_of,
    run_guide,
    run_settings,
    write_run_tickets,
)
from benchmarks.gpu.guide_shapes import SHAPES
from orchestrator.guide.tickets.matcher import recalled_rules, stated_rules
from orchestrator.guide.tickets.missions import PLANS
from orchestrator.guide.tickets.plan import MissionPlan


def add_run_options(parser: argparse.ArgumentParser) -> None:
    add_server_options(parser)
    parser.add_argument("--shape", choices=list(SHAPES), default="half", help="of the tickets (half)")
    parser.add_argument("--prompt", choices=FORMS, default="plain", help="sampler.prompt (plain)")
    parser.add_argument("--missions", type=int, choices=range(len(PLANS)), nargs="+", default=list(range(len(PLANS))))
    parser.add_argument("--seeds", type=int, nargs="+", default=[11], help="of tickets and runs")
    parser.add_argument("--training", type=int, default=384, help="tickets of each mission, a third held out (384)")
    parser.add_argument("--rollout-jobs", type=int, default=256, help="jobs of the target in flight (256)")
    parser.add_argument("--at-once", type=int, default=2, help="runs side by side (2)")
    parser.add_argument("--seconds", type=float, default=1e9, help="for all runs together")
    parser.add_argument("--set", action="append", default=[], help="a setting of all runs, as section.key=VALUE")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_run_options(parser)
    parser.add_argument("--epochs", type=int, nargs="+", default=[2], help="of the runs of a seed, in turn (2)")
    parser.add_argument("--result", default="gpu_guide_learning", help="written to benchmarks/results/RESULT.json")
    options = parser.parse_args()
    options.cap = 128
    runs: dict[int, Values] = {}
    with open_asking(options) as (asking, version), guide_farm(options, asking, options.rollout_jobs) as place:
        deadline = time.monotonic() + options.seconds

        def learn(seed: int) -> None:
            for epochs in options.epochs:
                if runs.get(seed, {}).get("seconds", 0.0) > deadline - time.monotonic():
                    break
                run = one_run(options, place, seed, epochs, deadline)
                if seed in runs and run["code"] != 0:
                    break
                runs[seed] = run
                write_result(options, version, runs={str(seed): run for seed, run in runs.items()})

        with ThreadPoolExecutor(options.at_once) as pool:
            list(pool.map(learn, options.seeds))
    print(figures.table(HEAD.split(), [row for seed in sorted(runs) for row in mission_rows(seed, runs[seed])]))
    for seed in sorted(runs):
        told = (f"{name} {runs[seed].get(name)}" for name in ("epochs", "busy", "mean_in_flight"))
        print(f"{seed}: {', '.join(told)}")
        for mission, found in runs[seed]["missions"].items():
            for key, text in (found["experiences"] or {}).items():
                print(f"{seed} {mission} [{key}] {text}")
    return 0


def one_run(options: argparse.Namespace, place: RunPlace, seed: int, epochs: int, deadline: float) -> Values:
    """A run of one seed and so many epochs, and what came of it."""
    folder: Path = options.folder
    data, name = folder / f"data-{seed}", f"seed-{seed}-epochs-{epochs}"
    write_run_tickets(data, options.shape, options.missions, options.training, 0, seed)
    overrides = {**overrides_of(options), "runner.epochs": epochs}
    values = run_settings(options, data, folder / "runs", name, seed, overrides)
    if time.monotonic() > deadline:
        return {"code": None, "seconds": 0.0, "missions": {}}
    ended = run_guide(place, values, folder, deadline)
    plans = plans_of(options.shape, options.missions)
    missions = {plan.name: mission_record(folder / "runs" / name, plan) for plan in plans}
    return {**ended, "epochs": epochs, "settings": values, "missions": missions}


def mission_record(run: Path, plan: MissionPlan) -> Values:
    """What one mission of a run has learned and proposed; planted rules by the matcher."""
    folder = run / plan.name
    lines = json_lines(folder / "reflection.jsonl")
    experiences = learned_experiences(run, plan.name)
    proposed = [
        operation["text"]
        for line in lines
        for operation in (line["proposal"] or {}).get("operations", [])
        if operation["text"]
    ]
    return {
        "experiences": experiences,
        "planted": [rule.name for rule in plan.rules],
        "learned_rules": sorted(recalled_rules(plan, (experiences or {}).values())),
        "learned_distractors": sorted(misled(plan, (experiences or {}).values())),
        "proposed_rules": sorted(recalled_rules(plan, proposed)),
        "proposed_distractors": sorted(misled(plan, proposed)),
        "proposed_texts": proposed,
        "gates": dict(Counter(line["gate"] for line in lines)),
        "reflections": [
            {name: line.get(name) for name in ("epoch", "step", "gate", "gate_reason", "figures", "rejected")}
            | {"rejected_operations": [one["reason"] for one in line["rejected_operations"]]}
            for line in lines
        ],
        "stats": stats_of(folder / "stats.json"),
    }


def misled(plan: MissionPlan, texts: Iterable[str]) -> set[str]:
    return {name for text in texts for name in stated_rules(plan, text).distractors}


def stats_of(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


HEAD = "seed mission done gates learned proposed of misled"


def mission_rows(seed: int, run: Mapping[str, Any]) -> list[list[str]]:
    return [
        [
            str(seed),
            mission,
            "cut" if run["code"] is None else str(run["code"]),
            " ".join(f"{count} {gate}" for gate, count in sorted(found["gates"].items())),
            str(len(found["learned_rules"])),
            str(len(found["proposed_rules"])),
            str(len(found["planted"])),
            str(len(found["learned_distractors"])),
        ]
        for mission, found in run["missions"].items()
    ]


if __name__ == "__main__":
    sys.exit(main())
