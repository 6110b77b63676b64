"""What a .config names: rows of the questions, the output of a collection, and what a search starts from.

CONFIG_INITIAL_DELTAS_PATH names one vector, or a population with what it has learnt; with its first vector reports
compare:

    {"0": 0.0, "1": -1.5, ...}
    [{"0": 0.0, ...}, {"deltas": {"0": 0.5, ...}, "scratchpad": "..."}]
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import Field, StrictStr
from typing_extensions import TypedDict

from orchestrator.settings import SettingsError
from orchestrator.settings.documents import Document, Text, read_document
from tasks.common.files import read_limited
from tasks.common.text import quote
from tasks.common.validation import (
    COLLECTED_BYTES,
    DELTAS_BYTES,
    LARGEST_DELTA,
    Delta,
    Scratchpad,
    check_value,
    unrepeated,
)
from tasks.records import ClusteredBy, Sides

if TYPE_CHECKING:
    from orchestrator.settings.options import Settings

T = TypeVar("T")

ZERO = Path("zero")
"""In place of a file of deltas: 0 for each cluster, however many there are."""
SHIPPED = Path("shipped")
"""In place of a file of system prompts: configs/prompts.yaml of this project, wherever the command runs."""
FORK, FORK_FILE = Path("fork"), "fork.json"
"""In place of a file of deltas: the population in this file of the output folder, where `evolve --fork` puts it."""

ALL = (range(sys.maxsize),)
_FORM = re.compile(r"([^\[\]]*)(?:\[([^\[\]]+)\])?\s*")
_SLICE = re.compile(r"\s*([0-9]{0,9})\s*:\s*([0-9]{0,9})\s*", re.ASCII)
_ITEM = re.compile(r"([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?", re.ASCII)


@dataclass(frozen=True)
class Selection:
    """Some rows of the split, or of all rows where it is ""."""

    split: str
    ranges: tuple[range, ...]

    def of(self, count: int) -> tuple[int, ...]:
        """The chosen ones of `count` rows, in their order."""
        closed = [one if one.stop < sys.maxsize else range(one.start, max(one.start + 1, count)) for one in self.ranges]
        last = max((one[-1] for one in closed), default=-1)
        if last >= count:
            raise ValueError(f"names row {last}, but there are {count}, counted from 0")
        return tuple(index for one in closed for index in one)


def parse_selection(text: str) -> Selection:
    """What "train", "train[0:32]", "train[0-7,9]", "0-7,9" and "all" select; an empty text selects nothing."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{quote(text)} is not of the form SPLIT[ROWS]")
    split, rows = match[1].strip(), match[2]
    if rows is None and (not split or split == "all"):
        return Selection("", ALL if split else ())
    if rows is None:
        return Selection("", _ranges(split)) if split[0] in "-0123456789" else Selection(split, ALL)
    if (part := _SLICE.fullmatch(rows)) is None:
        return Selection(split, _ranges(rows))
    chosen = range(int(part[1] or 0), int(part[2] or sys.maxsize))
    if not chosen:
        raise ValueError(f"{quote(rows)} has no rows")
    return Selection(split, (chosen,))


def _ranges(text: str) -> tuple[range, ...]:
    """As in "0-7,9,12"."""
    ranges: list[range] = []
    for item in map(str.strip, text.split(",")):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise ValueError(f'{item!r} is neither an index nor a range; write something like "0-7,9,12"')
        one = range(int(match[1]), int(match[2] or match[1]) + 1)
        if not one:
            raise ValueError(f"the end of the range {item!r} is before its start")
        if common := overlap(ranges, [one]):
            raise ValueError(f"names {common[0]} twice")
        ranges.append(one)
    return tuple(ranges)


def overlap(some: Sequence[range], others: Sequence[range]) -> range | None:
    for one in some:
        for other in others:
            if common := range(max(one.start, other.start), min(one.stop, other.stop)):
                return common
    return None


class _Pair(TypedDict):
    verbose_answer: str
    compressed_answer: str


class _Example(TypedDict):
    retained_pairs: list[_Pair]


def read_discovered_tokens(path: Path) -> tuple[int, ...]:
    """`token_selection.v_steer_token_ids` of the JSON file at `path`: token ids, the most wasted first."""
    ids = _read_collected(path, list[Annotated[int, Field(ge=0)]], "token_selection", "v_steer_token_ids")
    if not ids or len(set(ids)) < len(ids):
        raise ValueError(f"{quote(str(path))} has no discovered tokens, or one of them twice")
    return tuple(ids)


def read_sides(path: Path) -> Sides:
    """The verbose and the compressed answers of the retained pairs in the JSON file at `path`."""
    examples = _read_collected(path, list[_Example], "splits", "train")
    pairs = [pair for example in examples for pair in example["retained_pairs"]]
    if not pairs:
        raise ValueError(f"{quote(str(path))} has no retained pairs: no compressed answer was right")
    return Sides(tuple(p["verbose_answer"] for p in pairs), tuple(p["compressed_answer"] for p in pairs))


def _read_collected(path: Path, kind: type[T], section: str, name: str) -> T:
    try:
        found: T = check_value(kind, json.loads(read_limited(path, COLLECTED_BYTES))[section][name])
        return found
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        what = f"{section}.{name} of `orchestrator collect`"
        raise ValueError(f"{quote(str(path))} has no {what}: {reason}") from None


PLAIN = "plain"
"""The name of the prompt without a sentence."""
RESERVED = re.compile(r"first sentence|max_tokens \d+|g\d+_.*|.*: (end|log-odds|random) .*")
"""Names of the systems that a run makes itself: what is cut, individuals, and the vectors of each arm."""
LARGEST = 2  # of the clusters of k-means, the largest comes first


@dataclass(frozen=True)
class ClusterLayout:
    """Clusters 0 to `count` - 1.  `rest` is that of the tokens that no answer used; clusters by meaning have none."""

    count: int
    rest: int | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(str(cluster) for cluster in range(self.count))


def cluster_layout(by: ClusteredBy, clusters: int) -> ClusterLayout:
    """By meaning: 0, 1 and those of k-means.  By waste: ends of a turn, numbers, line breaks, the buckets, the rest."""
    if by == "waste":
        return ClusterLayout(clusters + 4, rest=clusters + 3)
    return ClusterLayout(clusters + 2)


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
class Genome:
    """The heritable part of an individual: one delta a cluster, in the order of the ids, and the scratchpad."""

    deltas: tuple[float, ...]
    scratchpad: str = ""


class GenomeFile(TypedDict):
    deltas: dict[str, Delta]
    scratchpad: Scratchpad


class ForkedArm(TypedDict):
    """What the search of an arm begins with; `clustering` is that of the deltas."""

    clustering: str
    population: list[GenomeFile]


class ForkFile(TypedDict):
    """fork.json: the run that another one was forked from, where it was then, at what ("generation 2"), and what the
    search begins with, by the name of the arm.
    """

    run: str
    folder: str
    at: str
    arms: dict[str, ForkedArm]


def read_population(path: Path, layout: ClusterLayout) -> tuple[Genome, ...]:
    """The vectors in the JSON file at `path`; one of zeros for `ZERO`, and `FORK`, whose file has each arm's."""
    if path in (ZERO, FORK):
        return (Genome((0.0,) * layout.count),)
    where = quote(str(path))
    try:
        found = json.loads(read_limited(path, DELTAS_BYTES), object_pairs_hook=unrepeated)
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{where} cannot be read as JSON: {error}") from error
    if not isinstance(found, list):
        return (_member(where, found, layout),)
    if not found:
        raise ValueError(f"{where} has no vectors")
    return tuple(_member(f"{where}: vector {number}", one, layout) for number, one in enumerate(found, start=1))


def population_problem(vectors: Sequence[Genome], optimiser: str, population: int, pinned: Sequence[int]) -> str:
    """Why a search cannot start from these vectors; "" where it can.  `pinned` are positions of clusters."""
    most, of = most_vectors(optimiser, population)
    if len(vectors) > most:
        return f"has {len(vectors)} vectors, and {of}"
    for number, one in enumerate(vectors, start=1):
        for cluster in pinned:
            if one.deltas[cluster] != vectors[0].deltas[cluster]:
                return f"has in vector {number} another delta of cluster {cluster} than in the first, and it is pinned"
    return ""


def most_vectors(optimiser: str, population: int) -> tuple[int, str]:
    """How many vectors a search can start from, and the reason in words."""
    if optimiser == "lineage":
        return 1, "OPTIMISER 'lineage' starts from one"
    return population, f"POPULATION_SIZE is {population}"


def _member(where: str, found: Any, layout: ClusterLayout) -> Genome:
    if not isinstance(found, dict):
        raise ValueError(f"{where} is not a JSON object of cluster ids and numbers")
    named = {"deltas", "scratchpad"}
    vector = found if found and found.keys() <= named else {"deltas": found}
    deltas = vector.get("deltas")
    if not isinstance(deltas, dict) or deltas.keys() != set(layout.ids):
        strange = sorted(set(deltas if isinstance(deltas, dict) else ()) ^ set(layout.ids))[:5]
        raise ValueError(
            f"{where} lacks or has too much: {', '.join(map(quote, strange))} (the clusters are '0' to "
            f"'{layout.ids[-1]}'); the value {ZERO} in place of a file is 0 for each"
        )
    try:
        values = tuple(check_value(Delta, deltas[cluster], f"cluster {cluster}") for cluster in layout.ids)
        return Genome(values, check_value(Scratchpad, vector.get("scratchpad", ""), "scratchpad"))
    except ValueError as error:
        raise ValueError(f"{where}: {error} (a delta is from {-LARGEST_DELTA:g} to {LARGEST_DELTA:g})") from None


@dataclass(frozen=True)
class BrevityPrompt(Document):
    """A sentence that is appended to the system prompt, under the name that reports show."""

    name: Text
    text: StrictStr

    def system_prompt(self, base: str) -> str:
        """The whole system prompt: `base`, a space, the sentence; without a sentence `base` as it is."""
        return " ".join(filter(None, [base.rstrip(), self.text.strip()])) if self.text.strip() else base


@dataclass(frozen=True)
class PromptFile(Document):
    prompts: tuple[BrevityPrompt, ...]


def read_prompts(path: Path) -> tuple[BrevityPrompt, ...]:
    prompts = read_document(path, PromptFile).prompts
    problems = [
        f"{path}: the {what} {value!r} occurs {times} times"
        for what, values in (("name", [p.name for p in prompts]), ("text", [p.text.strip() for p in prompts]))
        for value, times in Counter(values).items()
        if times > 1
    ]
    for name in [p.name for p in prompts if RESERVED.fullmatch(p.name)]:
        problems.append(f"{path}: the name {name!r} is that of a system which every run makes")
    if not prompts or prompts[0].name != PLAIN or prompts[0].text.strip():
        problems.append(f'{path}: the first prompt must have the name "{PLAIN}" and an empty text: the plain model')
    if problems:
        raise SettingsError(problems)
    return prompts


def shipped_file(name: str) -> Path:
    """One of configs/ of this project, which is in this folder when installed from a wheel."""
    installed = Path(__file__).parent / name
    return installed if installed.is_file() else Path(__file__).parents[2] / "configs" / name


def prompts_of(settings: Settings) -> dict[str, str]:
    """The whole system prompts that a run measures, by their names, the plain one first."""
    path = settings.prompts_path
    if path == SHIPPED:
        path = shipped_file("prompts.yaml")
    prompts = (BrevityPrompt(PLAIN, ""),) if path is None else read_prompts(path)
    return {prompt.name: prompt.system_prompt(settings.target_system_prompt) for prompt in prompts}
