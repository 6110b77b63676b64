"""The clusters of a run: made on the gpu queue once for their content, described, and known by their content hash."""

from __future__ import annotations

import dataclasses
import json
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from orchestrator.evolve.setup import Watch
from orchestrator.evolve.systems import Arm
from orchestrator.farm import Parked
from orchestrator.farm.connection import open_farm
from orchestrator.farm.dispatcher import Dispatcher, WaitLimits
from orchestrator.farm.work import Request, Scheduler
from orchestrator.report.format import provider_at
from orchestrator.report.live import Snapshot, View
from orchestrator.runs.folder import OutputError, OutputFolder, read_json, write_output
from orchestrator.settings import SettingsError
from orchestrator.settings.inputs import layout_of, read_sides
from orchestrator.settings.options import Settings
from orchestrator.settings.run import by_rules, clusters_folder, make_run, stage_limit_s
from tasks.common.validation import Hash, InvalidData, check_value, checked_json
from tasks.openai.describe import Descriptions, describe_messages
from tasks.records import ClusterFigures, JobSpec, Sides
from tasks.store.keys import CLUSTERING, DESCRIPTIONS, PROGRESS, content_hash
from tasks.store.store import Store
from tasks.store.workers import code_version

log = logging.getLogger(__name__)
SIDES_FILE, CLUSTERS_FILE = "cluster_sides.json", "clusters.json"


def collected_sides(settings: Settings) -> Sides | None:
    """The answers that a collection has left for clusters by waste; None where the settings name none."""
    if settings.clusters_by == "meaning" or settings.clusters_from is None:
        return None
    try:
        return read_sides(settings.clusters_from)
    except ValueError as error:
        raise SettingsError([f"CONFIG_CLUSTERS_FROM: {error}"]) from None


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
    notify: Callable[[str], None]

    def make(self, sides: Sides | None) -> tuple[str, ClusterFigures]:
        """The content hash of the clusters, and what is known of each; `sides` is left out for clusters by meaning."""
        if self.settings.clusters_by == "meaning":
            sides = None
        elif self.settings.clusters_from is not None:
            sides = collected_sides(self.settings)
        found = self._ensure(sides)
        kept = self._kept()
        if found not in kept:
            self.output.write_json(SIDES_FILE, {"sides": _plain({**kept, found: sides})})
        return found, self._store.clusterings.figures(found)

    def restore(self, arms: Sequence[Arm]) -> None:
        """Have the store hold the clusters of all arms, and write what they are into the folder."""
        kept, settings = self._kept(), self.settings
        for clustering in dict.fromkeys(arm.clustering for arm in arms):
            is_there = self._store.clusterings.hold(self._run_id, clustering)
            if not is_there and self._ensure(kept[clustering]) != clustering:
                raise OutputError(f"{self.output.path / SIDES_FILE} does not make the clusters {clustering} again")
            self.output.write(f"clusters/{clustering}.labels", self._store.clusterings.labels(clustering))
            if settings.whole:
                self.output.write(f"clusters/{clustering}.ends", self._store.clusterings.ends(clustering))
        self._store.put_metadata(self._run_id, CLUSTERING, arms[0].clustering)
        describe_discovered(self.scheduler, settings, self.watch, self.notify)
        if path := settings.cluster_descriptions_path:
            override_descriptions(self._store, self._run_id, path, layout_of(settings).count)
        keep_clusters(self.output, self._store, self._run_id, arms)

    @property
    def _store(self) -> Store:
        return self.scheduler.dispatcher.store

    @property
    def _run_id(self) -> str:
        return self.scheduler.dispatcher.run_id

    def _kept(self) -> dict[str, Sides | None]:
        try:
            return read_json(self.output.path / SIDES_FILE, SidesFile)["sides"]
        except FileNotFoundError:
            return {}

    def _ensure(self, sides: Sides | None) -> str:
        found = ensure_clustering(self.scheduler, self.watch, sides)
        log.info("clustering %s", found)
        return found


def _plain(sides: Mapping[str, Sides | None]) -> dict[str, Any]:
    return {name: None if one is None else dataclasses.asdict(one) for name, one in sides.items()}


def ensure_clustering(scheduler: Scheduler, watch: Watch, sides: Sides | None) -> str:
    """The content hash of a clustering, made on the gpu queue unless the store has it.

    `sides` are the answers for clusters by waste, None for clusters by meaning.  `watch` is called with the step and
    with (done, total).
    """
    store, run_id = scheduler.dispatcher.store, scheduler.dispatcher.run_id

    def show() -> None:
        text = store.metadata(run_id, PROGRESS)
        step: dict[str, Any] = json.loads(text) if text else {"stage": "waiting for a gpu worker"}
        watch(step["stage"], (int(step["done"]), int(step["total"])) if step.get("total") else None)

    # With the attempt in its key: what an earlier one has made may be gone.
    key, arguments = content_hash(run_id, scheduler.attempt), {}
    if sides is not None:
        texts = dataclasses.asdict(sides)
        arguments = {"sides": "sides:" + content_hash(texts)}
        store.put_shared(run_id, arguments["sides"], texts)
        key = content_hash(run_id, scheduler.attempt, arguments)
    # Without a limit of its own: a large vocabulary takes its time, and the job reports how far it is.
    scheduler.submit(Request("cluster:" + key, JobSpec("gpu.cluster", "vocabulary", arguments)))
    [(_, result)] = scheduler.results(show)
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


def describe_discovered(scheduler: Scheduler, settings: Settings, watch: Watch, notify: Callable[[str], None]) -> None:
    """Have the run use the reflector's descriptions of its clusters, when these come from discovered tokens.

    The reply is kept in a file beside the clustering's folder, and the same request is not made again.  Where rules
    answer in place of a language model, no key is there, or no reply can be used, the descriptions by rule stay, and
    `notify` says why.
    """
    farm, run_id = scheduler.dispatcher.farm, scheduler.dispatcher.run_id
    clustering = farm.store.metadata(run_id, CLUSTERING)
    if settings.clusters_by == "waste" or settings.clusters_from is None or clustering is None:
        return
    try:
        check_value(Hash, clustering, "the clustering")
    except InvalidData as error:
        raise Parked(str(error)) from None
    path = clusters_folder() / f"{clustering}.described.json"
    request = description_request(settings, farm.store.clusterings.descriptions(run_id))
    descriptions = cached_descriptions(path, request)
    if descriptions is None and farm.rules:
        notify("clusters are described by rules: the embedded farm has no language model to ask")
        return
    if descriptions is None:
        reply = _request_descriptions(scheduler, clustering, watch, stage_limit_s())
        if reply["by"] == "rules":
            notify(f"clusters are described by rules: {reply['why']}")
            return
        descriptions = reply["descriptions"]
        cached = {"request": request, "model": settings.reflector_model, "descriptions": descriptions}
        write_output(path, json.dumps(cached, indent=2, ensure_ascii=False) + "\n")
    farm.store.put_metadata(run_id, DESCRIPTIONS, json.dumps(descriptions))


def description_request(settings: Settings, clusters: Sequence[Mapping[str, Any]]) -> str:
    """The content hash of all that determines descriptions: the messages, the model, its sampling and its address."""
    run = make_run(settings, "")
    external = not settings.is_embedded
    provider = provider_at(run.reflector.model, run.endpoint, rules=by_rules(settings), external=external)
    return content_hash(
        provider, dataclasses.asdict(run.reflector), describe_messages(clusters), Descriptions.model_json_schema()
    )


def cached_descriptions(path: Path, request: str) -> list[dict[str, Any]] | None:
    """The reply to this request; None where another one was made, or where the file cannot be used."""
    try:
        cached = json.loads(path.read_text("utf-8"))
        found: list[dict[str, Any]] | None = cached["descriptions"] if cached["request"] == request else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found


def _request_descriptions(scheduler: Scheduler, clustering: str, watch: Watch, limit_s: float) -> dict[str, Any]:
    # With the attempt in its key: a reply by rules is not kept for a start that has a key for a language model.
    key = "descriptions:" + content_hash(scheduler.dispatcher.run_id, clustering, scheduler.attempt)
    scheduler.submit(Request(key, JobSpec("openai.describe", "clusters", {}, limit_s)))
    [(_, reply)] = scheduler.results(lambda: watch("describing the clusters", None))
    return reply


def cluster_only(settings: Settings, view: View) -> tuple[str, list[dict[str, Any]]]:
    """The folder of the clustering and its descriptions, without a run."""
    sides = collected_sides(settings)
    if settings.clusters_by == "waste" and sides is None:
        raise SettingsError(["CONFIG_CLUSTERS_FROM: is empty: without a run, clusters by waste need its answers"])
    run_id = f"cluster-{secrets.token_hex(4)}"
    started = time.monotonic()

    def watch(step: str, progress: tuple[int, int] | None) -> None:
        elapsed = time.monotonic() - started
        view.show(Snapshot(run_id, 0, 0, "clusters", elapsed_s=elapsed, note=step, progress=progress))

    with open_farm(settings, view.notify) as farm:
        farm.store.put_run(make_run(settings, run_id))
        farm.store.set_requirements(run_id, code_version(), settings.target_model)
        try:
            limits = WaitLimits(no_progress_s=stage_limit_s())
            scheduler = Scheduler(Dispatcher(farm, run_id, limits, view.notify))
            found = ensure_clustering(scheduler, watch, sides)
            farm.store.put_metadata(run_id, CLUSTERING, found)
            describe_discovered(scheduler, settings, watch, view.notify)
            return str(clusters_folder() / found), farm.store.clusterings.descriptions(run_id)
        finally:
            farm.store.delete_run(run_id)


@dataclass(frozen=True)
class ClusterOfRun:
    """One cluster of the vocabulary: `count` tokens, of which `examples` are texts; 0 and empty where not known."""

    id: str
    description: str
    examples: tuple[str, ...] = ()
    count: int = 0


@dataclass(frozen=True)
class ClustersOfArm:
    """The clusters of an arm in the order of their ids; `clustering` is the content hash."""

    arm: str
    clustering: str
    clusters: tuple[ClusterOfRun, ...]


class ClustersFile(TypedDict):
    """clusters.json."""

    arms: list[ClustersOfArm]


def keep_clusters(output: OutputFolder, store: Store, run_id: str, arms: Sequence[Arm]) -> None:
    """Write what the clusters of the arms hold.  Descriptions of the user's own keep the examples of the clustering."""
    found = []
    for arm in arms:
        made = {str(one["id"]): one for one in store.clusterings.made_descriptions(arm.clustering)}
        clusters = tuple(
            _cluster(str(one["id"]), str(one["description"]), made.get(str(one["id"]), {}))
            for one in store.clusterings.descriptions(run_id, arm.clustering)
        )
        found.append(ClustersOfArm(arm.name, arm.clustering, clusters))
    output.write_json(CLUSTERS_FILE, {"arms": [dataclasses.asdict(one) for one in found]})


def _cluster(cluster: str, description: str, made: Mapping[str, Any]) -> ClusterOfRun:
    return ClusterOfRun(cluster, description, tuple(made.get("examples", ())), int(made.get("count", 0)))


def read_clusters(output: OutputFolder) -> list[ClustersOfArm]:
    """None before the vocabulary is clustered."""
    try:
        return read_json(output.path / CLUSTERS_FILE, ClustersFile)["arms"]
    except FileNotFoundError:
        return []
