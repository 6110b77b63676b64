"""The clusters of a run: made on the gpu queue once for their content, described, and known by their content hash."""

from __future__ import annotations

import dataclasses
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from orchestrator.dispatch.dispatcher import Dispatcher, Parked, WaitLimits
from orchestrator.dispatch.scheduler import Request, Scheduler
from orchestrator.farm.connection import open_farm
from orchestrator.output import OutputError, OutputFolder, read_json, read_state, write_output
from orchestrator.report.announcement import provider_at
from orchestrator.report.live import Snapshot, View
from orchestrator.report.statistics import JudgedAnswer
from orchestrator.report.systems import MeasuredSystem, Measurement
from orchestrator.runs.baselines import REFERENCE, Baselines
from orchestrator.runs.measuring import Measurer
from orchestrator.runs.setup import Watch
from orchestrator.settings import Settings, SettingsError, make_run, read_sides
from orchestrator.settings.run import by_rules, clusters_folder, stage_limit_s
from tasks.code_version import code_version
from tasks.context import content_hash
from tasks.job import JobSpec
from tasks.message import Hash
from tasks.models import Sides
from tasks.openai.describe import SCHEMA, describe_messages, described
from tasks.plan import Candidate
from tasks.store.keys import CLUSTERING, DESCRIPTIONS, PROGRESS
from tasks.store.store import Store
from tasks.validation import InvalidData, check_value, checked_json

SIDES = "cluster_sides.json"
SHORT_PROMPTS = 2
"""How many prompts give short answers; the best prompt does as well, if it is none of these."""
SHORTER = 0.75
"""Their answers have at most this share of the plain prompt's tokens, where enough prompts do."""


def collected_sides(settings: Settings) -> Sides | None:
    """The answers that a collection has left for clusters by waste; None where the settings name none."""
    if settings.clusters_by == "meaning" or settings.clusters_from is None:
        return None
    try:
        return read_sides(settings.clusters_from)
    except ValueError as error:
        raise SettingsError([f"CONFIG_CLUSTERS_FROM: {error}"]) from None


def ensure_sides(measurer: Measurer, baselines: Baselines, settings: Settings, output: OutputFolder) -> Sides | None:
    """The answers that make clusters by waste; None for clusters by meaning.

    Without a collection they are answers to the training set: those of the plain prompt, and the right ones of the
    best prompt and of some others.  They are kept in the output folder, since other answers are another clustering.
    """
    if settings.clusters_by == "meaning" or settings.clusters_from is not None:
        return collected_sides(settings)
    path = output.path / SIDES
    if path.exists():
        return read_state(path, Sides)
    chosen = {s.name: s for s in (baselines.system(baselines.best_prompt), *short_prompts(baselines))}
    systems = [baselines.systems[0], *(system for system in chosen.values() if system.kind == "prompt")]
    answers = measurer.answers(REFERENCE, 0, [Candidate(0, (), system_prompt=s.system_prompt) for s in systems])
    short = [answer for given in answers[1:] for answer in given]
    sides = sides_of(answers[0], short, [example.gold for example in measurer.examples["training"]])
    output.write_state(SIDES, dataclasses.asdict(sides))
    return sides


def short_prompts(baselines: Baselines) -> list[MeasuredSystem]:
    """The prompts with the most right answers, of those whose answers are clearly shorter than plain ones.

    Shorter answers that are mostly wrong would show which tokens are missing, and not which are wasted.
    """
    plain = baselines.systems[0].validation
    assert plain is not None, "the plain prompt is always measured"
    prompts = [(s, s.validation) for s in baselines.systems if s.kind == "prompt" and s.validation is not None]

    def rank(one: tuple[MeasuredSystem, Measurement]) -> tuple[bool, float]:
        _, measured = one
        is_long = measured.mean_tokens > SHORTER * plain.mean_tokens
        return is_long, -measured.right / len(measured.correct)

    return [system for system, _ in sorted(prompts, key=rank)[:SHORT_PROMPTS]]


def sides_of(plain: Sequence[JudgedAnswer], short: Sequence[JudgedAnswer], golds: Sequence[str] = ()) -> Sides:
    """The two sides from answers to the plain prompt and answers to prompts that ask for brevity.

    An answer to a brevity prompt counts when it is right and shorter than the plain answer to the same question.
    `golds` are added when fewer count than there are plain answers.
    """
    lengths = {answer.example: answer.tokens for answer in plain}
    kept = [a.text for a in short if a.is_correct and a.tokens < lengths.get(a.example, 0)]
    if len(kept) < len(plain):
        kept += golds
    return Sides(tuple(answer.text for answer in plain), tuple(kept))


def ensure_clustering(scheduler: Scheduler, watch: Watch, sides: Sides | None) -> str:
    """The content hash of the run's clustering: see `make_clustering`."""
    store, run_id = scheduler.dispatcher.store, scheduler.dispatcher.run_id
    clustering = make_clustering(scheduler, watch, sides, store.metadata(run_id, CLUSTERING))
    store.put_metadata(run_id, CLUSTERING, clustering)
    return clustering


def make_clustering(scheduler: Scheduler, watch: Watch, sides: Sides | None, known: str | None = None) -> str:
    """The content hash of a clustering that the run holds, made on the gpu queue unless the store has the `known` one.

    `sides` are the answers for clusters by waste, None for clusters by meaning.  `watch` is called with the step and
    with (done, total).
    """
    store, run_id = scheduler.dispatcher.store, scheduler.dispatcher.run_id
    if known is not None and store.clusterings.hold(run_id, known):
        return known

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
    return content_hash(provider, dataclasses.asdict(run.reflector), describe_messages(described(clusters)), SCHEMA)


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
            describe_discovered(scheduler, settings, watch, view.notify)
            return str(clusters_folder() / found), farm.store.clusterings.descriptions(run_id)
        finally:
            farm.store.delete_run(run_id)
