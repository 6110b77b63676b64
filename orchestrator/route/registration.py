"""What a run of `route` consists of and depends on, checked and registered before its first job.

`plan.json` has what the run claims, by which thresholds, and the hash of all its inputs.  A report looks whether the
inputs in the folder are still those.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from orchestrator.route.settings import RouteSettings, route_settings_hash
from orchestrator.runs.folder import OutputFolder, read_json
from orchestrator.settings import SettingsError
from orchestrator.settings.farm import unwritable_folder
from tasks.common.files import FileTooLarge, read_limited
from tasks.common.validation import COLLECTED_BYTES
from tasks.route.claims import (
    CEILING,
    CHANCE,
    NO_LOOPHOLE,
    NONE,
    OWN_TRAJECTORIES,
    PLAIN,
    RANDOM_SPLITS,
    REAL,
    SECONDARY,
)
from tasks.route.jobs import Arm, Deployment
from tasks.route.problems import KNOWN_MODE, Part, Problem, in_part, parse_pairs, parse_problems
from tasks.store.keys import content_hash
from tasks.store.workers import code_version
from tasks.tables import DatasetError

PLAN_FILE = "plan.json"
FRONTIER = "the scaled frontier at equal solve"


def arms(settings: RouteSettings) -> list[Arm]:
    """The trajectories of a run, in the order of the settings, each with all seeds: what decides can come first."""
    training = settings.training
    return [Arm(trajectory, seed) for trajectory in training.trajectories for seed in training.seeds]


def deployments(settings: RouteSettings, arm: Arm) -> list[Deployment]:
    """What is evaluated of an arm, in every mode."""
    scaled = [f"scaled_{scale:g}" for scale in settings.evaluation.scales]
    names = {
        "shared": [NONE, "untrained", *scaled, *settings.routing.splits],
        "plain": [NONE],
        "erase": ["erase"],
        "ablated": [REAL],
    }[arm.trajectory]
    found = []
    for mode in settings.evaluation.modes:
        found += [Deployment(arm, name, mode) for name in names]
        if arm.trajectory == "ablated":
            found.append(Deployment(arm, REAL, mode, "on"))
    return found


def checked_inputs(settings: RouteSettings, *, is_planned: bool = False) -> dict[str, str]:
    """The texts of the data files, by the name of their setting; every bad line of them is told.

    `is_planned`: nothing will be written, so the output folder need not be there.
    """
    texts, faults = _read_texts(settings)
    problems: list[Problem] = []
    for name, text in texts.items():  # the problems come first
        path = str(settings.files[name])
        try:
            if name == "problems":
                problems = parse_problems(text, path)
                faults += _part_problems(settings, problems)
            else:
                parse_pairs(text, path, problems)
        except DatasetError as error:
            faults.append(f"data.{name}: {error}")
    if not is_planned:
        faults += unwritable_folder("output.root", Path(settings.output.root))
    if faults:
        raise SettingsError(faults)
    return texts


def read_texts(settings: RouteSettings) -> dict[str, str]:
    """The texts of the data files, by the name of their setting."""
    texts, faults = _read_texts(settings)
    if faults:
        raise SettingsError(faults)
    return texts


def _read_texts(settings: RouteSettings) -> tuple[dict[str, str], list[str]]:
    texts, faults = {}, []
    for name, path in settings.files.items():
        try:
            texts[name] = read_limited(path, COLLECTED_BYTES).decode("utf-8-sig")
        except OSError as error:
            faults.append(f"data.{name}: {path}: {error.strerror}")
        except (FileTooLarge, UnicodeDecodeError) as error:
            faults.append(f"data.{name}: {path}: {error}")
    return texts, faults


def _part_problems(settings: RouteSettings, problems: list[Problem]) -> Iterator[str]:
    training = settings.training
    parts: dict[Part, bool] = {
        "train": training.plain_share > 0 or any(mode != KNOWN_MODE for mode in training.modes),
        "pool": KNOWN_MODE in training.modes or training.teacher_rows > 0,
        "evaluation": True,
    }
    for part, is_asked in parts.items():
        if is_asked and not in_part(problems, part, training.levels):
            yield f"data.problems: none of part {part} has one of training.levels, {list(training.levels)}"


class RoutePlan(TypedDict):
    """plan.json; `inputs` are hashes by name, `hash` is of all the others."""

    claims: dict[str, str]
    thresholds: dict[str, Any]
    inputs: dict[str, str]
    hash: str


def input_hashes(settings: RouteSettings, texts: Mapping[str, str]) -> dict[str, str]:
    """The hash of each input: the settings, each file, and the code of tasks and workers."""
    files = {f"data.{name}": hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    return {"settings": route_settings_hash(settings), **files, "code": code_version()}


def make_plan(settings: RouteSettings, inputs: dict[str, str]) -> RoutePlan:
    thresholds = {**dataclasses.asdict(settings.claims), "seeds": len(settings.training.seeds)}
    claims = _claims(settings)
    return RoutePlan(claims=claims, thresholds=thresholds, inputs=inputs, hash=content_hash(claims, thresholds, inputs))


def keep_plan(output: OutputFolder, plan: RoutePlan) -> list[str]:
    """Write the plan, unless the run has one: the first stands, and what differs from it now is returned."""
    if (output.path / PLAN_FILE).exists():
        return departures(read_json(output.path / PLAN_FILE, RoutePlan), plan)
    output.write_json(PLAN_FILE, plan)
    return []


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
    """What `--plan` prints."""
    training, evaluation = settings.training, settings.evaluation
    found = arms(settings)
    evaluations = sum(len(deployments(settings, arm)) for arm in found)
    trained = len(found) * training.steps * training.prompts * training.group * training.max_new_tokens
    asked = evaluations * evaluation.samples * training.max_new_tokens
    return [
        f"trajectories  {len(found)}: {', '.join(arm.name for arm in found)}",
        f"splits        {len(settings.routing.splits)}: {', '.join(settings.routing.splits)}",
        f"jobs          1 gpu.bases, 1 cpu.pool, {len(found)} gpu.train, {len(found)} gpu.evaluate",
        f"evaluations   {evaluations} of {evaluation.samples} samples: each of what is deployed, in each mode",
        f"tokens        {trained:,} trained on and {asked:,} evaluated, at most",
        f"hours         unknown for {settings.model.model_name_or_path}; `orchestrator status` counts its steps",
        f"output        {settings.folder}",
        *(f"warning       {what}" for what in _unmeasured(settings)),
    ]


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
