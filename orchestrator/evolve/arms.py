"""The arms of a search: the system prompts in which deltas are searched, each with clusters and vectors of its own.

All prompts answer the training questions.  The best few on the front of tokens against correct answers become arms, so
that a prompt with longer and better answers may be one as well.  Each arm has clusters of its own answers and vectors
that need no search.  With CONFIG_WHOLE=n there is one arm, the user's own system prompt, as in the specification:
clusters of the run, and no vectors.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from orchestrator.evolve.choice import halve
from orchestrator.evolve.records import keep_clusters
from orchestrator.evolve.systems import PLAIN, Answers, Arm, Book, Measurer, System, measurement_of
from orchestrator.farm.connection import open_farm
from orchestrator.farm.dispatcher import Dispatcher
from orchestrator.farm.work import Scheduler
from orchestrator.report.live import Snapshot, View
from orchestrator.runs.folder import OutputError, OutputFolder, find_json, read_json
from orchestrator.settings import SettingsError
from orchestrator.settings.inputs import layout_of, read_sides
from orchestrator.settings.options import Settings
from orchestrator.settings.run import clusters_folder, make_run, stage_limit_s
from tasks.common.validation import checked_json
from tasks.plan import ExampleSet
from tasks.records import ClusterFigures, JobSpec, JudgedAnswer, Sides
from tasks.store.keys import CLUSTERING, DESCRIPTIONS, PROGRESS, content_hash
from tasks.store.store import Store
from tasks.store.workers import code_version

log = logging.getLogger(__name__)
ARMS = 3
ARM_WORTH = 0.8
"""Of the plain model's share of correct answers, the least of an arm's prompt: no vector makes up for so much."""
AT_CAP = 0.02
"""Of the plain model's answers to all training questions, the most that may reach the cap without a loop; or one."""
MOST_DOUBLINGS = 3
FACTORS = (0.5, 1.0, 2.0)
"""What the negative log-odds of each cluster are multiplied by."""
SIDES_FILE = "cluster_sides.json"

Answered = tuple[System, Answers]
Cluster = Callable[[Sides], tuple[str, ClusterFigures]]
"""`Clusters.make`."""
Watch = Callable[[str, tuple[int, int] | None], None]
"""Called with the step and with (done, total)."""


def measure_plain(
    settings: Settings, system_prompt: str, measurer: Callable[[int], Measurer]
) -> tuple[Answered, int, Measurer]:
    """The plain model on all training questions, and the cap that at most 2 % of its answers reach.

    measurer: makes that of a cap, whose questions fit with it.  A small cap would cut the plain model's answers, and
    make whatever is shorter seem right.  Answers that repeat themselves reach every cap, and are not counted here.
    """
    first = cap = settings.target_max_new_tokens
    plain = System(PLAIN, "plain", system_prompt)
    while True:
        asked = measurer(cap)
        sets: list[ExampleSet] = ["training", *(("ordering",) if asked.examples.get("ordering") else ())]
        found = asked.answers("plain", [plain.candidate(which) for which in sets])
        given = [one for answers in found for one in answers]
        cut = sum(one.tokens >= cap and not one.is_loop for one in given)
        if not settings.whole or cut <= max(1, AT_CAP * len(given)):
            for which, answers in zip(sets, found, strict=True):
                plain = plain.measured(which, measurement_of(answers))
            return (plain, found[0]), cap, asked
        if cap >= first * 2**MOST_DOUBLINGS:
            what = f"{cut} of {len(given)} answers of the plain model are cut at {cap} tokens"
            advice = f"raise it until at most {AT_CAP:.0%} are, or set CONFIG_WHOLE=n"
            raise SettingsError([f"CONFIG_TARGET_MAX_NEW_TOKENS: {what}; {advice}"])
        cap *= 2


def make_arms(
    settings: Settings, prompts: Mapping[str, str], plain: Answered, cap: int, measurer: Measurer, cluster: Cluster
) -> Book:
    """The arms of the run with all that was measured on the training set; prompts: by name, with the plain one."""
    rivals = [System(name, "prompt", text, arm=name) for name, text in prompts.items() if name != PLAIN]
    found = measurer.answers("prompts", [one.candidate("training") for one in rivals]) if rivals else []
    asked = zip(rivals, found, strict=True)
    measured = [plain, *((one.measured("training", measurement_of(given)), given) for one, given in asked)]
    points = [one.on("training").point for one, _ in measured]
    chosen = halve(points, ARMS, ARM_WORTH * points[0].correct) if settings.whole else [0]
    golds = [example.gold for example in measurer.examples["training"]]
    arms, vectors = list[Arm](), list[System]()
    for one, own in (measured[index] for index in chosen):
        others = [answer for other, given in measured if other is not one for answer in given]
        clustering, figures = cluster(sides_of(own, others, golds))
        arms.append(Arm(one.name, one.system_prompt, clustering))
        if settings.whole:
            vectors += vectors_of(arms[-1], figures, layout_of(settings).count, settings.delta_bound)
    vectors = measurer.measure("vectors", vectors, "training")
    return Book(cap=cap, arms=tuple(arms), systems=(*(one for one, _ in measured), *vectors))


def sides_of(own: Iterable[JudgedAnswer], others: Iterable[JudgedAnswer], golds: Sequence[str]) -> Sides:
    """The two sides of an arm's clusters: its own answers, and correct answers of others that are shorter.

    Shorter than the arm's own to the same question.  The right answers of the data (`golds`) are added where these are
    fewer than the arm has answers.
    """
    verbose = list(own)
    lengths = {answer.example: answer.tokens for answer in verbose}
    short = [a.text for a in others if a.is_right and a.is_whole and a.tokens < lengths[a.example]]
    if len(short) < len(verbose):
        short += golds
    return Sides(tuple(answer.text for answer in verbose), tuple(short))


def vectors_of(arm: Arm, figures: ClusterFigures, clusters: int, bound: float) -> list[System]:
    """The vectors of an arm that need no search; `bound` is the largest delta."""

    def system(name: str, deltas: Sequence[float]) -> System:
        return replace(plain, name=f"{arm.name}: {name}", deltas=tuple(min(bound, max(-bound, d)) for d in deltas))

    plain = System("", "vector", arm.system_prompt, arm=arm.name, clustering=arm.clustering)
    raised = [bound if i == figures.eos else 0.0 for i in range(clusters)]
    found = [system(f"end +{bound:g}", raised)]
    for factor in FACTORS if any(figures.log_odds) else ():
        scaled = [-factor * value for value in figures.log_odds]
        found.append(system(f"log-odds x{factor:g}", scaled))
        both = [bound if i == figures.eos else delta for i, delta in enumerate(scaled)]
        found.append(system(f"log-odds x{factor:g}, end +{bound:g}", both))
    return found


class SidesFile(TypedDict):
    """cluster_sides.json: the answers that each clustering was made of, by its content hash; null for none."""

    sides: dict[str, Sides | None]


@dataclass(frozen=True)
class Clusters:
    """Makes the clusters of a run's arms.  Other answers are other clusters, so the answers are kept in the folder."""

    scheduler: Scheduler
    settings: Settings
    output: OutputFolder
    watch: Watch

    def make(self, sides: Sides) -> tuple[str, ClusterFigures]:
        """The content hash of the clusters, and what is known of each; `sides` is left out for clusters by meaning."""
        collected = collected_sides(self.settings)
        used = collected or sides if self.settings.clusters_by == "waste" else None
        found = ensure_clustering(self.scheduler, self.watch, used)
        kept = self._kept()
        if found not in kept:
            content = {n: one and dataclasses.asdict(one) for n, one in {**kept, found: used}.items()}
            self.output.write_json(SIDES_FILE, {"sides": content})
        return found, self._store.clusterings.figures(found)

    def restore(self, arms: Sequence[Arm]) -> None:
        """Have the store hold the clusters of all arms, and write what they are into the folder."""
        kept, settings, store, run_id = self._kept(), self.settings, self._store, self.scheduler.dispatcher.run_id
        for clustering in dict.fromkeys(arm.clustering for arm in arms):
            if not store.clusterings.hold(run_id, clustering) and (
                clustering not in kept or ensure_clustering(self.scheduler, self.watch, kept[clustering]) != clustering
            ):
                raise OutputError(f"{self.output.path / SIDES_FILE} does not make the clusters {clustering} again")
            self.output.write(f"clusters/{clustering}.labels", store.clusterings.labels(clustering))
            if settings.whole:
                self.output.write(f"clusters/{clustering}.ends", store.clusterings.ends(clustering))
        store.put_metadata(run_id, CLUSTERING, arms[0].clustering)
        if path := settings.cluster_descriptions_path:
            override_descriptions(store, run_id, path, layout_of(settings).count)
        keep_clusters(self.output, store, run_id, arms)

    @property
    def _store(self) -> Store:
        return self.scheduler.dispatcher.store

    def _kept(self) -> dict[str, Sides | None]:
        found = find_json(self.output.path / SIDES_FILE, SidesFile)
        return found["sides"] if found else {}


def collected_sides(settings: Settings) -> Sides | None:
    """The answers that a collection has left for clusters by waste; None where the settings name none."""
    if settings.clusters_by == "meaning" or settings.clusters_from is None:
        return None
    try:
        return read_sides(settings.clusters_from)
    except ValueError as error:
        raise SettingsError([f"CONFIG_CLUSTERS_FROM: {error}"]) from None


def ensure_clustering(scheduler: Scheduler, watch: Watch, sides: Sides | None) -> str:
    """The content hash of a clustering, made on the gpu queue unless the store has it.

    `sides` are the answers for clusters by waste, None for clusters by meaning.
    """
    store, run_id = scheduler.dispatcher.store, scheduler.dispatcher.run_id

    def show() -> None:
        step: dict[str, Any] = json.loads(store.metadata(run_id, PROGRESS) or "{}")
        if step.get("job") != key:  # that of an earlier session
            step = {"stage": "waiting for a gpu worker"}
        watch(step["stage"], (int(step["done"]), int(step["total"])) if step.get("total") else None)

    # With the attempt in its key: what an earlier one has made may be gone.
    key, arguments = "cluster:" + content_hash(run_id, scheduler.attempt), {}
    if sides is not None:
        texts = dataclasses.asdict(sides)
        arguments = {"sides": "sides:" + content_hash(texts)}
        store.put_shared(run_id, arguments["sides"], texts)
        key = "cluster:" + content_hash(run_id, scheduler.attempt, arguments)
    # Without a limit of its own: a large vocabulary takes its time, and the job reports how far it is.
    result = scheduler.result(key, JobSpec("gpu.cluster", "vocabulary", arguments), show)
    log.info("clustering %s", result["clustering"])
    return str(result["clustering"])


class ClusterDescription(TypedDict):
    """An entry of the file that CONFIG_CLUSTER_DESCRIPTIONS_PATH names."""

    id: int | str
    description: str


def override_descriptions(store: Store, run_id: str, path: Path, clusters: int) -> None:
    """Have the reflector read descriptions of the user's own."""
    try:
        values = read_json(path, list[ClusterDescription], parse=checked_json)
        ids = sorted(int(d["id"]) for d in values)
    except (FileNotFoundError, OutputError, ValueError) as error:
        raise SettingsError([f"CONFIG_CLUSTER_DESCRIPTIONS_PATH: {error}"]) from None
    if ids != list(range(clusters)):
        wanted = f"one description for each of 0..{clusters - 1}"
        raise SettingsError([f"CONFIG_CLUSTER_DESCRIPTIONS_PATH: {path} holds {ids}, not {wanted}"])
    store.put_metadata(run_id, DESCRIPTIONS, json.dumps(values))


def cluster_only(settings: Settings, view: View) -> tuple[str, list[dict[str, Any]]]:
    """The folder of the clustering and its descriptions, without a run."""
    sides = collected_sides(settings)
    if settings.clusters_by == "waste" and sides is None:
        raise SettingsError(["CONFIG_CLUSTERS_FROM: is empty: without a run, clusters by waste need its answers"])
    run_id, started = f"cluster-{secrets.token_hex(4)}", time.monotonic()

    def watch(step: str, progress: tuple[int, int] | None) -> None:
        elapsed = time.monotonic() - started
        view.show(Snapshot(run_id, 0, 0, "clusters", elapsed_s=elapsed, note=step, progress=progress))

    with open_farm(settings, view.notify) as farm:
        farm.store.put_run(make_run(settings, run_id))
        farm.store.set_requirements(run_id, code_version(), settings.target_model)
        try:
            dispatcher = Dispatcher(farm, run_id, stage_limit_s(), notify=view.notify)
            found = ensure_clustering(Scheduler(dispatcher), watch, sides)
            return str(clusters_folder() / found), farm.store.clusterings.made_descriptions(found)
        finally:
            farm.store.delete_run(run_id)
