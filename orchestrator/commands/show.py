"""`orchestrator show`: one individual of a run."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from orchestrator import console
from orchestrator.commands import common

if TYPE_CHECKING:
    from orchestrator.results import RunResults

DESCRIPTION = """\
Show one individual of an evolution, also one that was never the best: its deltas by cluster, its scratchpad, its
figures, the individuals that it descends from, and the reflector's files about it.

A NODE is a name of the evolution's tree, such as g0_pop0, g2_child3_pre or g2_child3_mut."""

EPILOG = f"""\
examples:
  orchestrator show outputs/evolve g1_child0_mut
  orchestrator show outputs/evolve g1_child0_mut --json > individual.json
{common.LISTED}
`orchestrator evolve --fork RUN@NODE` begins a run with the individual.
exit status: 0 printed; 1 the folder holds no run, or the run has no such individual."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("show", DESCRIPTION, EPILOG)
    common.add_run(parser)
    parser.add_argument("node", metavar="NODE", help="the individual's name")
    common.add_json(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: _show(arguments))


def _show(arguments: argparse.Namespace) -> int:
    from orchestrator.results import RunResults

    found = _individual(RunResults.open(arguments.run), arguments.node)
    common.print_found(arguments, found, _lines(found))
    return console.DONE


def _individual(results: RunResults, name: str) -> dict[str, Any]:
    """The individual with its clusters, its ancestors, its descendants, and the files about it."""
    one = dataclasses.asdict(results.individual(name))
    arm = next((arm.clusters for arm in results.arms if arm.arm == one["arm"]), results.clusters)
    known = {cluster.id: dataclasses.asdict(cluster) for cluster in arm}
    return {
        **{key: value for key, value in one.items() if key not in ("deltas", "scratchpad")},
        "parents": [edge.start for edge in results.descent if edge.end == name],
        "children": [edge.end for edge in results.descent if edge.start == name],
        "files": [f"reflector_prompts/{call.file}" for call in results.reflector_calls if call.is_about(name)],
        "scratchpad": one["scratchpad"],
        "clusters": [{"id": id, "delta": delta, **known.get(id, {})} for id, delta in one["deltas"].items()],
    }


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    from orchestrator.report.layout import format_table

    facts = {name: value for name, value in found.items() if name not in ("scratchpad", "clusters")}
    yield from format_table(
        [(name, _text(value)) for name, value in facts.items() if value not in (None, "", False, [])]
    )
    yield from ("", "deltas, added to the logits of each cluster's tokens:")
    rows = [(one["id"], f"{one['delta']:+.3f}", one.get("description", "")) for one in found["clusters"]]
    yield from format_table(rows) if rows else ("not known: individuals.jsonl is missing",)
    if found["scratchpad"]:
        yield from ("", "scratchpad:", found["scratchpad"])


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
