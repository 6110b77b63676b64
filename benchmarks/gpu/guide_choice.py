"""Which tickets, prompt and wording of the rules the other benchmarks of `guide` use: chosen by a stated rule.

The rule, over the greedy verdicts of a development seed (`guide_tickets.py`): of all shapes of tickets, forms of the
prompt and wordings of the planted rules, the one where the planted rules gain most over the better of none and the
initial experience.  It counts as usable where that is 10 points or more.  What is chosen is reported on other seeds.

`python benchmarks/gpu/guide_choice.py --tickets-result gpu_guide_tickets --variables FILE`
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import figures
from benchmarks.gpu.guide_tickets import greedy, pooled
from tasks.guide.figures import balanced_accuracy
from tasks.guide.gate import TicketScores

ENOUGH = 0.10
FALLBACK = ("three", "examples", "contrast")


@dataclass(frozen=True)
class Choice:
    """A shape, a form of the prompt and a wording, with balanced accuracies on the development seed."""

    shape: str
    prompt: str
    wording: str
    none: float
    initial: float
    planted: float

    @property
    def gain(self) -> float:
        return self.planted - max(self.none, self.initial)


def choices(records: Sequence[Mapping[str, Any]]) -> list[Choice]:
    """All that were asked, the best first; equal ones in the order of their names."""
    found = []
    for (stage, shape, prompt), conditions in pooled(records).items():
        if stage != "verdicts" or not {"none", "initial"} <= conditions.keys():
            continue
        none, initial = (_balanced(conditions[name]) for name in ("none", "initial"))
        for condition, tickets in conditions.items():
            name, _, wording = condition.partition(":")
            if name == "planted":
                found.append(Choice(shape, prompt, wording, none, initial, _balanced(tickets)))
    return sorted(found, key=lambda one: (-one.gain, one.shape, one.prompt, one.wording))


def _balanced(tickets: Sequence[TicketScores]) -> float:
    return balanced_accuracy(greedy(tickets)).value or 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tickets-result", default="gpu_guide_tickets", help="of guide_tickets.py, without .json")
    parser.add_argument("--variables", type=Path, required=True, help="takes SHAPE=, PROMPT= and WORDING= for a shell")
    parser.add_argument("--result", default="gpu_guide_choice", help="written to benchmarks/results/RESULT.json")
    options = parser.parse_args()
    path = figures.FOLDER / f"{options.tickets_result}.json"
    found = choices(json.loads(path.read_text(encoding="utf-8"))["units"]) if path.exists() else []
    shape, prompt, wording = (found[0].shape, found[0].prompt, found[0].wording) if found else FALLBACK
    is_usable = bool(found) and found[0].gain >= ENOUGH
    rows = [
        [c.shape, c.prompt, c.wording, *(f"{100 * value:.1f}" for value in (c.none, c.initial, c.planted, c.gain))]
        for c in found[:15]
    ]
    print(figures.table(["shape", "prompt", "wording", "none", "initial", "planted", "gain"], rows))
    print(f"chosen: {shape}, {prompt}, {wording}; usable (10 points or more): {'yes' if is_usable else 'no'}")
    names = {"SHAPE": shape, "PROMPT": prompt, "WORDING": wording}
    options.variables.write_text("".join(f"{name}={shlex.quote(value)}\n" for name, value in names.items()))
    figures.write(
        options.result,
        {
            "command": " ".join(["python", *sys.argv]),
            "rule": (__doc__ or "").split("\n\n")[1],
            "chosen": names,
            "usable": is_usable,
            "table": rows,
        },
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
