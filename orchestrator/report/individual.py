"""One individual of a run, with what explains it: its deltas by cluster, its scratchpad, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from orchestrator.report.formatting import format_score
from orchestrator.report.layout import wrap
from orchestrator.results import RunResults
from tasks.escape import escape_control

STAGES: Mapping[str, str] = {"pop": "in the population", "pre": "a child", "mut": "a child after its mutation"}
MOST_EXAMPLES = 6
LEAST_COLUMNS = 20  # for descriptions


@dataclass(frozen=True)
class ClusterDelta:
    """A cluster and what is added to the logits of its `count` tokens, such as those in `examples`."""

    id: str
    delta: float
    description: str
    examples: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class ShownIndividual:
    """As `IndividualResult`, with its clusters.

    `parents` are the individuals that it descends from, `children` those that descend from it, and `files` the prompts
    and replies of the reflector that were about it, in the output folder.
    """

    name: str
    generation: int
    stage: str
    fitness: float
    mean_tokens: float
    correctness: float
    is_elite: bool
    target: str | None
    skip_reason: str
    merge_fallback: str
    parents: tuple[str, ...]
    children: tuple[str, ...]
    files: tuple[str, ...]
    scratchpad: str
    clusters: tuple[ClusterDelta, ...]


def shown_individual(results: RunResults, name: str) -> ShownIndividual:
    """Raises: OutputError for a name that no individual of the run has, or a damaged file."""
    one = results.individual(name)
    known = {cluster.id: cluster for cluster in results.clusters}
    return ShownIndividual(
        name=one.name,
        generation=one.generation,
        stage=one.stage,
        fitness=one.fitness,
        mean_tokens=one.mean_tokens,
        correctness=one.correctness,
        is_elite=one.is_elite,
        target=one.target,
        skip_reason=one.skip_reason,
        merge_fallback=one.merge_fallback,
        parents=tuple(edge.start for edge in results.descent if edge.end == name),
        children=tuple(edge.end for edge in results.descent if edge.start == name),
        files=tuple(f"reflector_prompts/{call.file}" for call in results.reflector_calls if call.is_about(name)),
        scratchpad=one.scratchpad,
        clusters=tuple(
            ClusterDelta(id, float(delta), found.description, found.examples, found.count)
            if (found := known.get(id))
            else ClusterDelta(id, float(delta), "", (), 0)
            for id, delta in one.deltas.items()
        ),
    )


def individual_lines(one: ShownIndividual, width: int) -> Iterator[str]:
    """The individual as text for a terminal of so many columns."""
    mutated = "" if one.target is None else f", which changed cluster {one.target}"
    yield f"{one.name}: {STAGES[one.stage]} of generation {one.generation}{mutated}"
    facts = [
        ("fitness", format_score(one.fitness) + (", of an elite" if one.is_elite else "")),
        ("length", f"{one.mean_tokens:.1f} tokens an answer"),
        ("correct", f"{one.correctness:.1%} of the training set"),
    ]
    facts += [("merge", reason) for reason in [one.merge_fallback] if reason]
    facts += [("mutation", reason) for reason in [one.skip_reason] if reason]
    facts += [(what, ", ".join(names)) for what, names in (("from", one.parents), ("to", one.children)) if names]
    facts += [("reflector", file) for file in one.files]
    yield from (f"  {what:<10} {escape_control(text)}" for what, text in facts)
    yield ""
    yield "Deltas, added to the logits of each cluster's tokens"
    for cluster in one.clusters:
        yield from _cluster_lines(cluster, width)
    if not one.clusters:
        yield "  not known: individuals.jsonl is missing"
    if one.scratchpad:
        yield ""
        yield "Scratchpad"
        yield from (f"  {line}" for line in escape_control(one.scratchpad, keep_lines=True).splitlines())


def _cluster_lines(cluster: ClusterDelta, width: int) -> Iterator[str]:
    """Beside the delta what the cluster holds, below it some of its tokens, where the description names none."""
    head = f"  {escape_control(cluster.id):<4}{cluster.delta:+.3f}  "
    tokens = " ".join(map(repr, cluster.examples[:MOST_EXAMPLES]))
    texts = [cluster.description, "" if '"' in cluster.description else tokens]
    beside = wrap(
        escape_control("\n".join(filter(None, texts)), keep_lines=True), max(width - len(head), LEAST_COLUMNS)
    )
    for number, line in enumerate(beside):
        yield f"{' ' * len(head) if number else head}{line}".rstrip()
