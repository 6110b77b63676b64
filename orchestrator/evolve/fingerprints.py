"""What the scores of a run depend on beside its settings: its questions, its target's servers, and its clusters.

All are kept in the output folder.  A run that is resumed with other questions or with a server that is none of its own
is refused: its old and new scores could not be compared.  The clusters have examples of their tokens, so that the
folder can be read where the clustering is not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

import redis
from typing_extensions import TypedDict

from orchestrator.evolve.systems import SYSTEMS_FILE, Arm
from orchestrator.farm.jobs import Scheduler
from orchestrator.runs.folder import OutputError, OutputFolder, OutputNotWritable, read_state
from orchestrator.runs.preflight import ask_server
from orchestrator.settings import Settings, SettingsError
from tasks.common.validation import checked_json
from tasks.gpu.host import differences
from tasks.gpu.processor import ModelCheck
from tasks.records import Example, Target
from tasks.store.keys import content_hash
from tasks.store.store import Store

QUESTIONS, SERVERS, MODEL, CLUSTERS_FILE = "questions.json", "servers.json", "model.json", "clusters.json"
MOST_LISTED = 10
SHORT = 16  # digits of a hash
ANOTHER_RUN = "`orchestrator evolve` starts another run with another --output, or --fresh"

QuestionHashes = dict[str, dict[str, str]]
"""By set: the content hash of each question, with its context and right answer, by id, in order."""


class ServersFile(TypedDict):
    """servers.json: what each server that has answered has reported of itself."""

    servers: list[dict[str, Any]]


def question_hashes(examples: Mapping[str, Sequence[Example]]) -> QuestionHashes:
    return {
        which: {row.id: content_hash(dataclasses.asdict(row))[:SHORT] for row in rows}
        for which, rows in examples.items()
    }


def check_same_questions(output: OutputFolder, examples: Mapping[str, Sequence[Example]]) -> None:
    """Whether the questions are those that the run in the folder began with."""
    read_servers(output)
    if (output.path / SYSTEMS_FILE).exists() and (
        missing := [n for n in (QUESTIONS, SERVERS) if not (output.path / n).exists()]
    ):
        what = f"{output.path} has scores, but no {' and no '.join(missing)}"
        raise OutputError(f"{what}: what they depend on is not known; {ANOTHER_RUN}")
    try:
        before = read_state(output.path / QUESTIONS, QuestionHashes)
    except FileNotFoundError:
        return
    problems = [
        f"CONFIG_DATA_PATH: {_changed(which, before.get(which, {}), now)} in {output.path}; {ANOTHER_RUN}"
        for which, now in question_hashes(examples).items()
        if list(before.get(which, {}).items()) != list(now.items())
    ]
    if problems:
        raise SettingsError(problems)


def _changed(which: str, before: Mapping[str, str], now: Mapping[str, str]) -> str:
    names = [name for name in {**now, **before} if now.get(name) != before.get(name)] or ["the order"]
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    here, there = (content_hash(list(hashes.items()))[:SHORT] for hashes in (now, before))
    listed = ", ".join(names[:MOST_LISTED]) + more
    return f"the {which} set has changed ({listed}): its hash is {here} here, but {there} in the run"


def keep_questions(output: OutputFolder, examples: Mapping[str, Sequence[Example]]) -> None:
    if not (output.path / QUESTIONS).exists():
        output.write_state(QUESTIONS, question_hashes(examples))


def ensure_same_server(scheduler: Scheduler, settings: Settings, target: Target, output: OutputFolder) -> None:
    """Ask the gpu queue which server answers and which model it has, and keep both with the run."""
    found = ask_server(scheduler, target, None)
    now = found["server"]
    known = read_servers(output)
    if known and now not in known:
        option = "CONFIG_SGLANG_URL" if settings.sglang_url else "CONFIG_SGLANG_COMMAND"
        raise SettingsError(
            [
                f"{option}: the target server differs from that of the run in {output.path}: "
                f"{differences(known[-1], now)}; scores of two servers are not compared: "
                f"start the earlier one again, or {ANOTHER_RUN}"
            ]
        )
    keep_servers(output, [now])
    output.write_state(MODEL, found["model"])


@contextmanager
def servers_kept(output: OutputFolder, store: Store, run_id: str) -> Iterator[None]:
    """Around what the servers answer: where it ends early, those that have answered until then are kept too.

    Otherwise a run that parks on a farm of two different servers could go on with only one of them.
    """
    try:
        yield
    except BaseException:
        with suppress(redis.RedisError, OutputNotWritable):  # it is reported by what ended the block
            keep_servers(output, store.servers(run_id))
        raise


def keep_servers(output: OutputFolder, servers: Sequence[Mapping[str, Any]]) -> None:
    """Add those that the file lacks: the gpu workers of a farm may have servers that differ."""
    known = read_servers(output)
    if new := [server for server in servers if server not in known]:
        output.write_state(SERVERS, {"servers": [*known, *new]})


def unknown_servers(output: OutputFolder, store: Store, run_id: str) -> list[dict[str, Any]]:
    """Those that answered for the run and are not kept with it.

    After a process was killed workers still do what waits in the queues, perhaps with another server than the run's.
    """
    known = read_servers(output)
    return [server for server in store.servers(run_id) if server not in known]


def read_servers(output: OutputFolder) -> list[dict[str, Any]]:
    try:
        return read_state(output.path / SERVERS, ServersFile, parse=checked_json)["servers"]
    except FileNotFoundError:
        return []


def read_model(output: OutputFolder) -> ModelCheck:
    """The target's model.  Raises: FileNotFoundError for a run that has asked no server yet."""
    return read_state(output.path / MODEL, ModelCheck)


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
    output.write_state(CLUSTERS_FILE, {"arms": [asdict(one) for one in found]})


def _cluster(cluster: str, description: str, made: Mapping[str, Any]) -> ClusterOfRun:
    return ClusterOfRun(cluster, description, tuple(made.get("examples", ())), int(made.get("count", 0)))


def read_clusters(output: OutputFolder) -> list[ClustersOfArm]:
    """None before the vocabulary is clustered."""
    try:
        return read_state(output.path / CLUSTERS_FILE, ClustersFile)["arms"]
    except FileNotFoundError:
        return []
