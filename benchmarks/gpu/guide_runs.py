"""Runs of `orchestrator guide` for the benchmarks: tickets, settings, a farm, and the command until a deadline."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import yaml

from benchmarks.gpu import common
from benchmarks.gpu.guide_asking import Asking, BusyWatch
from benchmarks.gpu.guide_shapes import SHAPES
from orchestrator.exit_status import PARKED
from orchestrator.guide.tickets.files import write_tickets
from orchestrator.guide.tickets.generate import generate_tickets
from orchestrator.guide.tickets.missions import PLANS
from orchestrator.guide.tickets.plan import MissionPlan, with_rules
from workers.embedded import control
from workers.embedded.farm import FarmSpec

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "configs" / "guide_gpu.yaml"
STOP_S = 20.0
MOST_PARKS = 30
Values = dict[str, Any]


@dataclass(frozen=True)
class RunPlace:
    """How a run reaches the farm and the server.  Without `redis_url` it starts an embedded farm for itself."""

    asking: Asking
    redis_url: str
    rollout_jobs: int


def plans_of(shape: str, missions: Sequence[int]) -> list[MissionPlan]:
    return [with_rules(PLANS[mission], SHAPES[shape].rules) for mission in missions]


def write_run_tickets(
    folder: Path, shape: str, missions: Sequence[int], training: int, test: int, seed: int, noise: float = 0.0
) -> None:
    """tickets.jsonl, test.jsonl and guidance.json of some missions in `folder`, from the generator."""
    plans, given = plans_of(shape, missions), SHAPES[shape].shape
    write_tickets(
        folder,
        plans,
        [one for plan in plans for one in generate_tickets(plan, training, seed, shape=given, noise=noise)],
        [one for plan in plans for one in generate_tickets(plan, test, seed, shape=given, part="test")],
    )


def run_settings(
    options: argparse.Namespace, data: Path, output: Path, name: str, seed: int, overrides: Mapping[str, Any]
) -> Values:
    """configs/guide_gpu.yaml with these tickets and this model.  `overrides` are by dotted name.

    The embedded engine has the settings of configs/guide.yaml: rules as critic and reflector, and enforced lines.
    """
    is_embedded = options.engine == "embedded"
    values: Values = yaml.safe_load((CONFIG.with_name("guide.yaml") if is_embedded else CONFIG).read_text())
    plans = plans_of(options.shape, options.missions)
    values["stage_a_paths"] = [str(data / "tickets.jsonl")]
    values["missions"] = {plan.name: plan.focus for plan in plans}
    values["guidance"]["path"] = str(data / "guidance.json")
    values["output"] = {"root": str(output), "run_id": name, "fail_if_exists": True}
    if not is_embedded:
        values["model"]["model_name_or_path"] = common.model_folder(options)
    for part in ("critic", "reflection"):
        values[part]["prompt_path"] = str(ROOT / values[part]["prompt_path"])
    values["runner"]["shuffle_seed"] = seed
    for dotted, value in overrides.items():
        section, _, key = dotted.rpartition(".")
        (values[section] if section else values)[key] = value
    return values


def overrides_of(options: argparse.Namespace) -> Values:
    """The form of the prompt, and the NAME=VALUE texts of `--set`, whose values are YAML."""
    given = (text.partition("=") for text in options.set)
    return {"sampler.prompt": options.prompt, **{name: yaml.safe_load(value) for name, _, value in given}}


@contextmanager
def guide_farm(options: argparse.Namespace, asking: Asking, rollout_jobs: int) -> Iterator[RunPlace]:
    """A farm for runs on one server; the embedded engine needs none here."""
    if options.engine == "embedded":
        yield RunPlace(asking, "", rollout_jobs)
        return
    spec = FarmSpec(folder=str(options.folder / "farm"), gpu_slots=rollout_jobs, cpu_workers=2, log_level="WARNING")
    with control.start(spec) as farm:
        yield RunPlace(asking, farm.redis_url, rollout_jobs)


def guide_command(place: RunPlace, config: Path, farm_dir: Path) -> list[str]:
    command = [sys.executable, "-m", "orchestrator", "guide", "--config", str(config)]
    command += ["--rollout-jobs", str(place.rollout_jobs), "--log-level", "warning"]
    if not place.redis_url:
        return [*command, "--farm-dir", str(farm_dir)]
    return [*command, "--farm", "external", "--redis-url", place.redis_url, "--sglang-url", place.asking.url]


def run_guide(place: RunPlace, values: Values, folder: Path, deadline: float) -> Values:
    """Run the command until it ends or the deadline, in monotonic seconds.  Its log is NAME.log in `folder`.

    A run that parks is gone on with, up to `MOST_PARKS` times.  Returns its exit status (None: it was interrupted), how
    often it parked, seconds, and how busy the server was meanwhile.
    """
    name = values["output"]["run_id"]
    config = folder / f"{name}.yaml"
    config.write_text(yaml.safe_dump(values, allow_unicode=True, sort_keys=False))
    started, parks = time.monotonic(), 0
    with (folder / f"{name}.log").open("a") as log, BusyWatch(place.asking) as busy:
        while (code := _run_once(place, config, folder / f"farm-{name}", log, deadline)) == PARKED:
            parks += 1
            if parks == MOST_PARKS:
                break
    seconds = time.monotonic() - started
    print(f"{name} {'interrupted' if code is None else f'ended with {code}'} after {seconds:.0f} s", flush=True)
    return {"code": code, "parks": parks, "seconds": seconds, **busy.found()}


def _run_once(place: RunPlace, config: Path, farm_dir: Path, log: IO[str], deadline: float) -> int | None:
    command, environment = guide_command(place, config, farm_dir), os.environ | {"HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT, env=environment)
    try:
        return process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return None


def json_lines(path: Path) -> list[Values]:
    """The lines of a file, none where it is not there; a last line that is torn is left out."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    return lines


def learned_experiences(run: Path, mission: str) -> dict[str, str] | None:
    """What a mission has by now; None where it has not begun."""
    path = run / mission / "guidance.json"
    if not path.exists():
        return None
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))[mission]["experiences"]
    return found
