"""What `orchestrator guide` learns of planted rules with the shipped settings, and what a critic on the card says.

Each seed has tickets of its own (guide_tickets.py, one rule a mission) and one run with configs/guide_gpu.yaml over all
missions, on one server; only the tickets, the model's folder and the seed are other ones than in the file.  Then new
tickets are judged, greedily, under the initial, the learned and the planted experiences: balanced accuracy and false
passes, over all seeds and missions.  At last a short run of the first mission has the critic on, with the same model:
64 tickets, one epoch, without previews.  One critique of a wrong answer is shown, and how many could be used.

    python benchmarks/gpu/guide.py --model FOLDER --folder WORK --seeds 11 --test 100
    python benchmarks/gpu/guide.py --engine embedded --model embedded --folder WORK --training 48 --test 8 --missions 0
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks import figures
from benchmarks.gpu import common
from benchmarks.guide_tickets import MISSIONS, STATED, PlantedMission, generate_tickets, with_rules, write_tickets
from orchestrator.guide.inputs import parse_ticket
from tasks.gpu.prompt import answer_ends, load_tokenizer, render_chat
from tasks.gpu.target import Generated, GenerateRequest, TargetClient
from tasks.guide.choose import judged_figures
from tasks.guide.prompts import PromptForm, rollout_messages
from tasks.guide.ticket import Verdict, parse_verdict
from workers.embedded import farm as control
from workers.embedded.farm import FarmSpec

ROOT = Path(__file__).parents[2]
CONDITIONS = ("initial", "learned", "planted")
Values = dict[str, Any]
Judged = list[tuple[Verdict, Verdict | None]]


CRITIC_TICKETS = 64
CRITIC = (
    "critic.enabled=true", "reflection.batch_size=8", "reflection.rapid_mode=true", "runner.epochs=1",
    "holdout.fraction=0.0",
)  # fmt: skip


def run_settings(
    options: argparse.Namespace,
    missions: Sequence[PlantedMission],
    data: Path,
    name: str,
    seed: int,
    changes: Sequence[str] = (),
) -> Values:
    """The shipped settings with these tickets and this model; the embedded one has those of `make guide`."""
    is_embedded = options.engine == "embedded"
    shipped = "guide.yaml" if is_embedded else "guide_gpu.yaml"
    values: Values = yaml.safe_load((ROOT / "configs" / shipped).read_text())
    values["stage_a_paths"] = [str(data / "tickets.jsonl")]
    values["missions"] = {mission.name: mission.focus for mission in missions}
    values["guidance"]["path"] = str(data / "guidance.json")
    values["output"] = {"root": str(options.folder / "runs"), "run_id": name, "fail_if_exists": True}
    values["runner"]["shuffle_seed"] = seed
    if not is_embedded:
        values["model"]["model_name_or_path"] = common.model_folder(options)
    for text in [*options.set, *changes]:
        dotted, _, value = text.partition("=")
        section, _, key = dotted.rpartition(".")
        (values[section] if section else values)[key] = yaml.safe_load(value)
    return values


def learn(options: argparse.Namespace, values: Values, url: str) -> Path:
    """One run, gone on with while it parks; its folder."""
    folder, name = options.folder, values["output"]["run_id"]
    config = folder / f"{name}.yaml"
    config.write_text(yaml.safe_dump(values, allow_unicode=True, sort_keys=False))
    command = [sys.executable, "-m", "orchestrator", "guide", "--config", str(config), "--log-level", "warning"]
    command += ["--rollout-jobs", str(options.rollout_jobs)]
    own = ["--farm-dir", str(folder / "farm")]
    spec = FarmSpec(folder=str(folder / "farm"), gpu_slots=options.rollout_jobs, cpu_workers=1, log_level="WARNING")
    with (folder / f"{name}.log").open("w") as log:

        def run(more: Sequence[str]) -> None:
            for _ in range(options.parks):
                if not subprocess.run([*command, *more], stdout=log, stderr=log, cwd=ROOT, check=False).returncode:
                    return
            sys.exit(f"the run did not end; see {log.name}")

        if options.engine == "embedded":
            run(own)
        else:
            with control.start(spec) as farm:
                run(["--farm", "external", "--redis-url", farm.redis_url, "--sglang-url", url])
    return folder / "runs" / name


def figures_of(run: Path) -> dict[str, Values]:
    """What a run says of itself, by mission: all but the lists of its batches."""
    found = {path.parent.name: json.loads(path.read_text()) for path in sorted(run.glob("*/stats.json"))}
    kept = ("batches", "reflections", "precision", "recall", "format", "critiques", "tokens", "against_greedy")
    return {mission: {name: stats[name] for name in kept} for mission, stats in found.items()}


def learned_in(run: Path) -> dict[str, dict[str, str]]:
    """The experiences of each mission at the end of a run."""
    files = {path.parent.name: json.loads(path.read_text()) for path in sorted(run.glob("*/guidance.json"))}
    return {mission: content[mission]["experiences"] for mission, content in files.items()}


def with_critic(options: argparse.Namespace, missions: Sequence[PlantedMission], url: str) -> Values:
    """What a short run with the critic shows."""
    data, seed = options.folder / "data-critic", options.seeds[0]
    tickets = [t for one in missions for t in generate_tickets(one, CRITIC_TICKETS, seed, shape=STATED)]
    write_tickets(data, missions, tickets=tickets)
    return critiques_in(learn(options, run_settings(options, missions, data, "critic", seed, CRITIC), url))


def critiques_in(run: Path) -> Values:
    """What the critic said of a wrong answer, a reply that could not be used, and how many of each there were."""
    lines = [json.loads(line) for path in sorted(run.glob("*/step_*/trajectories.jsonl")) for line in path.open()]
    said = sorted((line for line in lines if "critic" in line), key=lambda line: bool(line["signals"]["label_match"]))
    rejected = [line["critic_rejected"] for line in lines if "critic_rejected" in line]
    shown = ("group_id", "response_text", "signals", "critic", "critic_by")
    return {
        "used": len(said),
        "rejected": len(rejected),
        "one": {name: said[0][name] for name in shown} if said else None,
        "one_rejected": rejected[:1],
    }


def judge(
    options: argparse.Namespace,
    server: tuple[str, str | None],
    mission: PlantedMission,
    experiences: Mapping[str, str],
    lines: Sequence[Mapping[str, Any]],
    form: PromptForm,
) -> Judged:
    """The labels and greedy verdicts of tickets.  What follows an answer's first line cannot change the verdict."""
    model = common.model_folder(options)
    tokenizer = load_tokenizer(model)
    tickets = [parse_ticket(line)[0] for line in lines]
    asked = [rollout_messages(mission.name, mission.focus, experiences, ticket, form) for ticket in tickets]
    stops = tuple(sorted(answer_ends(tokenizer)))
    requests = [
        GenerateRequest(tuple(render_chat(tokenizer, *messages)), 12, 0.0, 1.0, 0, stops, stop=("\n",))
        for messages in asked
    ]
    found: dict[int, Generated] = {}
    TargetClient(server[0], 300, options.in_flight, server[1]).generate_many(requests, found.__setitem__)
    return [(ticket.label, verdict_of(found[number].text)) for number, ticket in enumerate(tickets)]


def verdict_of(text: str) -> Verdict | None:
    label, _, word = text.replace("：", ":").partition(":")
    return parse_verdict(word) if label.strip().lower() == "verdict" else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a folder, or embedded")
    parser.add_argument("--engine", choices=["sglang", "embedded"], default="sglang")
    parser.add_argument("--command", default=common.SGLANG, help="the command that starts SGLang")
    parser.add_argument("--args", default=None, help=f"further arguments of the server (SGLang: {common.ARGUMENTS!r})")
    parser.add_argument("--folder", type=Path, required=True, help="takes runs and logs; emptied first")
    parser.add_argument("--missions", type=int, choices=range(len(MISSIONS)), nargs="+", default=range(len(MISSIONS)))
    parser.add_argument("--seeds", type=int, nargs="+", default=[11], help="of tickets and runs")
    parser.add_argument("--training", type=int, default=384, help="tickets of each mission, a third held out (384)")
    parser.add_argument("--test", type=int, default=300, help="new tickets of each mission (300)")
    parser.add_argument("--rollout-jobs", type=int, default=192, help="jobs of the target in flight (192)")
    parser.add_argument("--in-flight", type=int, default=256, help="requests of the new tickets (256)")
    parser.add_argument("--parks", type=int, default=30, help="how often a run that parks is gone on with (30)")
    parser.add_argument("--critic", action=argparse.BooleanOptionalAction, default=True, help="the run with a critic")
    parser.add_argument("--set", action="append", default=[], help="a setting of all runs, as section.key=VALUE")
    options = parser.parse_args()
    options.cap, options.folder = 128, common.fresh(options.folder)
    os.environ["HF_HUB_OFFLINE"] = "1"
    missions = [with_rules(MISSIONS[number], 1) for number in options.missions]
    judged: dict[str, Judged] = {condition: [] for condition in CONDITIONS}
    learned: dict[int, Any] = {}
    runs: dict[int, Any] = {}
    with common.open_server(options, common.target_of(options, options.in_flight)) as server:
        with common.client(*server) as http:
            version = common.server_version(http)
        for seed in options.seeds:
            data = options.folder / f"data-{seed}"
            tickets = [t for one in missions for t in generate_tickets(one, options.training, seed, shape=STATED)]
            write_tickets(data, missions, tickets=tickets)
            values = run_settings(options, missions, data, f"seed-{seed}", seed)
            started = time.perf_counter()
            run = learn(options, values, server[0])
            learned[seed], runs[seed] = learned_in(run), figures_of(run)
            print(f"seed {seed}: learned in {time.perf_counter() - started:.0f} s", flush=True)
            print(
                json.dumps({"learned": learned[seed], "figures": runs[seed]}, indent=1, ensure_ascii=False), flush=True
            )
            for one in missions:
                rules = {f"G{number}": rule.text for number, rule in enumerate(one.rules, 1)}
                under = {
                    "initial": {"G0": one.first},
                    "learned": learned[seed][one.name],
                    "planted": {"G0": one.first} | rules,
                }
                new = generate_tickets(one, options.test, seed, shape=STATED, part="test")
                form = values["sampler"].get("prompt", "plain")
                for condition in CONDITIONS:
                    judged[condition] += judge(options, server, one, under[condition], new, form)
        critique = with_critic(options, missions[:1], server[0]) if options.critic else {}
    measured = {condition: judged_figures(pairs) for condition, pairs in judged.items()}
    accuracies = {condition: one["balanced_accuracy"] for condition, one in measured.items()}
    false_passes = {condition: one["false_pass_rate"] for condition, one in measured.items()}
    rows = [
        [condition, str(len(judged[condition])), f"{accuracies[condition]:.1%}", f"{false_passes[condition]:.1%}"]
        for condition in CONDITIONS
    ]
    print(figures.table(["experiences", "tickets", "balanced accuracy", "false passes"], rows))
    print(json.dumps(critique, indent=1, ensure_ascii=False))
    found = {"balanced_accuracy": accuracies, "false_pass_rate": false_passes, "learned": learned, "runs": runs}
    found |= {"critique": critique}
    about = {"command": " ".join(["python", *sys.argv]), "gpus": common.gpus(), "sglang": version}
    figures.write("gpu_guide", about | {"model": Path(options.model).name, **found})


if __name__ == "__main__":
    main()
