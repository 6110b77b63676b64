"""What a search starts from: the ids of its clusters, its vectors, and its system prompts.

CONFIG_INITIAL_DELTAS_PATH names one vector, or a population with what it has learnt; with its first vector reports
compare:

    {"0": 0.0, "1": -1.5, ...}
    [{"0": 0.0, ...}, {"deltas": {"0": 0.5, ...}, "scratchpad": "..."}]
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import StrictStr
from typing_extensions import TypedDict

from orchestrator.settings.documents import Document, Text, read_document
from orchestrator.settings.inputs import FORK, SHIPPED, ZERO
from orchestrator.settings.options import Settings, SettingsError
from tasks.common.files import read_limited
from tasks.common.text import quote
from tasks.common.validation import DELTAS_BYTES, LARGEST_DELTA, Delta, Scratchpad, check_value, parse_json
from tasks.records import ClusteredBy

PLAIN = "plain"
"""The name of the prompt without a sentence."""
RESERVED = re.compile(r"first sentence|max_tokens \d+|g\d+_.*|.*: (end|log-odds|random) .*")
"""Names of the systems that a run makes itself: what is cut, individuals, and the vectors of each arm."""
NAMED = {"deltas", "scratchpad"}
LARGEST = 2  # of the clusters of k-means, the largest comes first


@dataclass(frozen=True)
class ClusterLayout:
    """Clusters 0 to `count` - 1.  `last` is how the last id follows from an option, for messages.

    `rest` is the cluster of the tokens that no answer used; clusters by meaning have none.
    """

    count: int
    last: str
    rest: int | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all clusters in numerical order."""
        return tuple(str(cluster) for cluster in range(self.count))


def cluster_layout(by: ClusteredBy, clusters: int) -> ClusterLayout:
    """By meaning: 0, 1 and those of k-means.  By waste: ends of a turn, numbers, line breaks, the buckets, the rest."""
    if by == "waste":
        return ClusterLayout(clusters + 4, "CLUSTERS + 3", rest=clusters + 3)
    return ClusterLayout(clusters + 2, "CLUSTERS + 1")


def layout_of(settings: Settings) -> ClusterLayout:
    return cluster_layout(settings.clusters_by, settings.clusters)


def pinned_positions(layout: ClusterLayout, optimiser: str) -> tuple[int, ...]:
    """The positions of the clusters whose deltas stay as they are.

    The same amount added to all logits changes no probability, so a cluster can be pinned without losing a solution.
    By waste it is the rest.  By meaning it is the largest of k-means; "reflective" alone searches all clusters then.
    """
    if layout.rest is not None:
        return (layout.rest,)
    return () if optimiser == "reflective" else (LARGEST,)


def pinned_of(settings: Settings) -> tuple[int, ...]:
    return pinned_positions(layout_of(settings), settings.optimiser)


@dataclass(frozen=True)
class StartVector:
    """One delta a cluster, in logits, in the order of the clusters' ids; and the scratchpad of its lineage."""

    deltas: Mapping[str, float]
    scratchpad: str = ""


class StartVectorFile(TypedDict):
    deltas: dict[str, Delta]
    scratchpad: Scratchpad


class ForkedArm(TypedDict):
    """What the search of an arm begins with; `clustering` is that of the deltas."""

    clustering: str
    population: list[StartVectorFile]


class ForkFile(TypedDict):
    """fork.json: the run that another one was forked from, where it was then, at what ("generation 2"), and what the
    search begins with, by the name of the arm.
    """

    run: str
    folder: str
    at: str
    arms: dict[str, ForkedArm]


def read_population(path: Path, layout: ClusterLayout) -> tuple[StartVector, ...]:
    """The vectors in the JSON file at `path`, one or more.

    It is 0 for each cluster when `path` is `ZERO`, and `FORK`, with which fork.json says what each arm begins with.
    """
    if path in (ZERO, FORK):
        return (StartVector(dict.fromkeys(layout.ids, 0.0)),)
    where = quote(str(path))
    try:
        found = json.loads(read_limited(path, DELTAS_BYTES), object_pairs_hook=_distinct)
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{where} cannot be read as JSON: {error}") from error
    if not isinstance(found, list):
        return (_member(where, found, layout),)
    if not found:
        raise ValueError(f"{where} has no vectors")
    return tuple(_member(f"{where}: vector {number}", one, layout) for number, one in enumerate(found, start=1))


def read_fork(path: Path) -> ForkFile:
    found: ForkFile = parse_json(ForkFile, read_limited(path, DELTAS_BYTES))
    return found


def population_problem(vectors: Sequence[StartVector], optimiser: str, population: int, pinned: Sequence[int]) -> str:
    """Why a search cannot start from these vectors; "" where it can.  `pinned` are positions of clusters."""
    most, of = most_vectors(optimiser, population)
    if len(vectors) > most:
        return f"has {len(vectors)} vectors, and {of}"
    ids = list(vectors[0].deltas)
    for number, one in enumerate(vectors, start=1):
        for cluster in (ids[position] for position in pinned):
            if one.deltas[cluster] != vectors[0].deltas[cluster]:
                return f"has in vector {number} another delta of cluster {cluster} than in the first, and it is pinned"
    return ""


def most_vectors(optimiser: str, population: int) -> tuple[int, str]:
    """How many vectors a search can start from, and the reason in words."""
    if optimiser == "lineage":
        return 1, "OPTIMISER 'lineage' starts from one"
    return population, f"POPULATION_SIZE is {population}"


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _member(where: str, found: Any, layout: ClusterLayout) -> StartVector:
    """One vector, with or without a scratchpad."""
    if not isinstance(found, dict):
        raise ValueError(f"{where} is not a JSON object of cluster ids and numbers")
    vector = found if found.keys() <= NAMED and found.keys() & NAMED else {"deltas": found}
    deltas = vector.get("deltas")
    if not isinstance(deltas, dict) or deltas.keys() != set(layout.ids):
        strange = sorted(set(deltas if isinstance(deltas, dict) else ()) ^ set(layout.ids))[:5]
        raise ValueError(
            f"{where} lacks or has too much: {', '.join(map(quote, strange))} (the clusters are '0' to "
            f"'{layout.ids[-1]}', {layout.last}); the value {ZERO} in place of a file is 0 for each"
        )
    try:
        values = {cluster: check_value(Delta, deltas[cluster], f"cluster {cluster}") for cluster in layout.ids}
        return StartVector(values, check_value(Scratchpad, vector.get("scratchpad", ""), "scratchpad"))
    except ValueError as error:
        raise ValueError(f"{where}: {error} (a delta is from {-LARGEST_DELTA:g} to {LARGEST_DELTA:g})") from None


@dataclass(frozen=True)
class BrevityPrompt(Document):
    """A sentence that is appended to the system prompt, under the name that reports show."""

    name: Text
    text: StrictStr

    def system_prompt(self, base: str) -> str:
        """The whole system prompt: `base`, a space, the sentence; without a sentence `base` as it is."""
        if not self.text.strip():
            return base
        return " ".join(filter(None, [base.rstrip(), self.text.strip()]))


@dataclass(frozen=True)
class PromptFile(Document):
    """The whole file."""

    prompts: tuple[BrevityPrompt, ...]


PLAIN_ONLY = PromptFile(prompts=(BrevityPrompt(name=PLAIN, text=""),))


def read_prompts(path: Path) -> PromptFile:
    """The prompts of a file, the plain one first."""
    found = read_document(path, PromptFile)
    prompts = found.prompts
    problems = [
        f"{path}: the {what} {value!r} occurs {times} times"
        for what, values in (("name", [p.name for p in prompts]), ("text", [p.text.strip() for p in prompts]))
        for value, times in Counter(values).items()
        if times > 1
    ]
    problems += [
        f"{path}: the name {p.name!r} is that of a system which every run makes"
        for p in prompts
        if RESERVED.fullmatch(p.name)
    ]
    if not prompts or prompts[0].name != PLAIN or prompts[0].text.strip():
        problems.append(f'{path}: the first prompt must have the name "{PLAIN}" and an empty text: the plain model')
    if problems:
        raise SettingsError(problems)
    return found


def prompts_of(settings: Settings) -> dict[str, str]:
    """The whole system prompts that a run measures, by their names, the plain one first."""
    path = settings.prompts_path
    found = PLAIN_ONLY if path is None else read_prompts(shipped_file() if path == SHIPPED else path)
    return {prompt.name: prompt.system_prompt(settings.target_system_prompt) for prompt in found.prompts}


def shipped_file() -> Path:
    """The path of prompts.yaml: in configs/ of a checkout, or in this folder when installed from a wheel."""
    installed = Path(__file__).parent / "prompts.yaml"
    return installed if installed.is_file() else Path(__file__).parents[2] / "configs" / "prompts.yaml"
