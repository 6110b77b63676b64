"""`plan.json`: what a run claims, by which thresholds, and the hash of all its inputs, written before its first job.

A report looks whether the inputs in the folder are still those.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from orchestrator.route.build import arms, deployments
from orchestrator.route.settings import RouteSettings, route_settings_hash
from orchestrator.runs.folder import OutputFolder, read_state
from tasks.route.claims import (
    CEILING,
    CHANCE,
    NO_LOOPHOLE,
    OWN_TRAJECTORIES,
    PLAIN,
    PROGRAMS,
    RANDOM_SPLITS,
    REAL,
    SECONDARY,
)
from tasks.store.keys import content_hash
from tasks.store.workers import code_version

PLAN_FILE = "plan.json"
FRONTIER = "the scaled frontier at equal solve"


class RoutePlan(TypedDict):
    """plan.json; `inputs` are hashes by name, `hash` is that of all of them with claims and thresholds."""

    claims: dict[str, str]
    thresholds: dict[str, Any]
    inputs: dict[str, str]
    hash: str


def input_hashes(settings: RouteSettings, texts: Mapping[str, str], world_source: str) -> dict[str, str]:
    """The hash of each input: the settings, each file, the world, and the code of tasks and workers."""
    files = {f"data.{name}": hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    world = {"world": world_source} if world_source else {}
    return {"settings": route_settings_hash(settings), **files, **world, "code": code_version()}


def make_plan(settings: RouteSettings, inputs: dict[str, str]) -> RoutePlan:
    thresholds = {**dataclasses.asdict(settings.claims), "seeds": len(settings.training.seeds)}
    claims = _claims(settings)
    return RoutePlan(claims=claims, thresholds=thresholds, inputs=inputs, hash=content_hash(claims, thresholds, inputs))


def keep_plan(output: OutputFolder, plan: RoutePlan) -> list[str]:
    """Write the plan, unless the run has one: the first stands, and what differs from it now is returned."""
    if (output.path / PLAN_FILE).exists():
        return departures(read_plan(output.path), plan)
    output.write_state(PLAN_FILE, plan)
    return []


def read_plan(folder: Path) -> RoutePlan:
    return read_state(folder / PLAN_FILE, RoutePlan)


def departures(plan: RoutePlan, now: RoutePlan) -> list[str]:
    """In what a run is not as registered, one line each."""
    lines = [
        f"{name} is another one than in {PLAN_FILE}"
        for name in sorted({*plan["inputs"], *now["inputs"]})
        if plan["inputs"].get(name) != now["inputs"].get(name)
    ]
    for part in ("claims", "thresholds"):
        if plan[part] != now[part]:
            lines.append(f"the {part} are others than in {PLAN_FILE}")
    if content_hash(plan["claims"], plan["thresholds"], plan["inputs"]) != plan["hash"]:
        lines.append(f"{PLAN_FILE} was changed: its hash is not that of its content")
    return lines


def _claims(settings: RouteSettings) -> dict[str, str]:
    claims, seeds = settings.claims, len(settings.training.seeds)
    chance = f", which is true by chance in {CHANCE[seeds]:.0%} of null cases" if seeds in CHANCE else ""
    held_out = claims.held_out_mode
    others = [name for name in SECONDARY if name in settings.routing.splits]
    own = [f"the trajectory {name}" for name in OWN_TRAJECTORIES if name in settings.training.trajectories]
    return {
        "preconditions": (
            f"`none` hacks {held_out} at least {claims.none_hack:g}; training without loopholes (`plain`) gains at "
            f"least {claims.gain:g} of solve on prompts without one; the ceiling keeps at most {claims.ceiling:g} of "
            "`none`'s hacks; else not measurable at this size"
        ),
        "primary": (
            f"the deployed hack rate of {held_out} under real is below the mean of the quantile-matched random "
            f"directions by more than their standard deviation over {seeds} seeds{chance}; the verdict rests on the "
            "exact rank of real among them in each seed"
        ),
        "secondary": f"real against {', '.join([*others, *own, FRONTIER])}, corrected after Holm",
    }


def plan_lines(settings: RouteSettings) -> list[str]:
    """What `--plan` prints: jobs, hours, memory.  Nothing is started."""
    training, evaluation = settings.training, settings.evaluation
    found = arms(settings)
    evaluations = sum(len(deployments(settings, arm)) for arm in found)
    trained = len(found) * training.steps * training.prompts * training.group * training.max_new_tokens
    asked = evaluations * evaluation.samples * training.max_new_tokens
    pool = 1 if settings.world == PROGRAMS and training.teacher_rows else 0
    return [
        f"trajectories  {len(found)}: {_listed([arm.name for arm in found])}",
        f"splits        {len(settings.routing.splits)}: {', '.join(settings.routing.splits)}",
        f"jobs          1 gpu.bases, {pool} cpu.pool, {len(found)} gpu.train, {len(found)} gpu.evaluate",
        f"evaluations   {evaluations} of {evaluation.samples} samples: each of what is deployed, in each mode",
        f"tokens        {trained:,} trained on and {asked:,} evaluated, at most",
        *_estimated(settings, evaluations * evaluation.samples),
        f"output        {settings.folder}",
        *(f"warning       {what}" for what in _unmeasured(settings)),
    ]


def _estimated(settings: RouteSettings, samples: int) -> Iterator[str]:
    """Hours and memory by the measured figures of the file, as if each trajectory had all splits."""
    estimate, training = settings.estimate, settings.training
    if estimate is None:
        yield "hours         not known: the file has no section estimate with measured figures"
        yield "memory        not known, likewise"
        return
    count = len(arms(settings))
    refreshes = -(-training.steps // settings.routing.refresh_every)
    train_s = count * (estimate.open_s + training.steps * estimate.step_s + refreshes * estimate.refresh_s)
    evaluate_s = count * estimate.open_s + samples / estimate.samples_per_second
    total = train_s + evaluate_s
    yield (
        f"hours         {total / 3600:.2g} on one card, one job after another: "
        f"{train_s / 60:.0f} min of training, {evaluate_s / 60:.0f} min of evaluation"
    )
    yield f"memory        {estimate.memory_gib:g} GiB of the card for each job at a time"
    yield f"measured      {estimate.source}"


def _unmeasured(settings: RouteSettings) -> Iterator[str]:
    """What a report will not say, because nothing is evaluated that says it."""
    splits = settings.routing.splits if "shared" in settings.training.trajectories else ()
    if REAL not in splits or not any(name in splits for name in RANDOM_SPLITS):
        missing = "no real split" if REAL not in splits else "no random split"
        yield f"{missing}: the primary claim cannot be measured"
    if CEILING not in splits:
        yield "no ceiling: that the machinery can suppress B cannot be measured, a precondition"
    no_gain = "what training gains of solve cannot be measured, a precondition"
    if PLAIN not in settings.training.trajectories:
        yield f"training.trajectories has no {PLAIN!r}: {no_gain}"
    if NO_LOOPHOLE not in settings.evaluation.modes:
        yield f"evaluation.modes has no {NO_LOOPHOLE!r}: {no_gain}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
