"""Which tickets, prompt and wording of the rules the other benchmarks of `guide` use: chosen by a stated rule.

The rule, over the greedy verdicts of a development seed (`guide_tickets.py`): of all shapes of tickets, forms of the
prompt and wordings of the planted rules that every mission was asked, the one where the planted rules gain most over
the better of none and the initial experience; those that gain 10 points or more in each language come first.  It is
usable where it gains 10 points or more over all missions.  What is chosen is then asked on another development seed,
where the same table has one row, and reported on further ones.

`python benchmarks/gpu/guide_choice.py --tickets-result gpu_guide_look --variables FILE`
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
from benchmarks.gpu.guide_tables import Pooled, pooled
from benchmarks.gpu.guide_verdicts import greedy
from tasks.guide.figures import balanced_accuracy

ENOUGH = 0.10
FALLBACK = ("stated", "turns_own", "plain")
LANGUAGES = ("en", "zh")


@dataclass(frozen=True)
class Choice:
    """A shape, a form of the prompt and a wording, with balanced accuracies on the development seed.

    `gains` are those over the better of none and the initial experience, of all missions and of each language.
    """

    shape: str
    prompt: str
    wording: str
    none: float
    initial: float
    planted: float
    gains: Mapping[str, float]

    @property
    def gain(self) -> float:
        return self.gains["all"]

    @property
    def is_in_each_language(self) -> bool:
        return all(gain >= ENOUGH for gain in self.gains.values())


def choices(records: Sequence[Mapping[str, Any]]) -> list[Choice]:
    """All that every mission was asked, the best first; equal ones in the order of their names."""
    whole = {"all": pooled(records), **{language: pooled(records, language) for language in LANGUAGES}}
    missions: dict[tuple[str, ...], set[int]] = {}
    for record in records:
        unit = record["unit"]
        missions.setdefault((unit["stage"], unit["shape"], unit["prompt"]), set()).add(unit["mission"])
    every = set().union(*missions.values())
    found = []
    for cell, conditions in whole["all"].items():
        stage, shape, prompt = cell
        if stage != "verdicts" or not {"none", "initial"} <= conditions.keys() or missions[cell] != every:
            continue
        none, initial = (_balanced(conditions, name) for name in ("none", "initial"))
        for condition in conditions:
            name, _, wording = condition.partition(":")
            if name == "planted":
                gains = {name: _gain(cells[cell], condition) for name, cells in whole.items() if cell in cells}
                found.append(Choice(shape, prompt, wording, none, initial, _balanced(conditions, condition), gains))
    return sorted(found, key=lambda one: (not one.is_in_each_language, -one.gain, one.shape, one.prompt, one.wording))


def _balanced(conditions: Pooled, name: str) -> float:
    return balanced_accuracy(greedy(conditions[name])).value or 0.0


def _gain(conditions: Pooled, planted: str) -> float:
    return _balanced(conditions, planted) - max(_balanced(conditions, "none"), _balanced(conditions, "initial"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tickets-result", default="gpu_guide_look", help="of guide_tickets.py, without .json")
    parser.add_argument("--variables", type=Path, help="takes SHAPE=, PROMPT= and WORDING= for a shell")
    parser.add_argument("--result", default="gpu_guide_chosen", help="written to benchmarks/results/RESULT.json")
    options = parser.parse_args()
    path = figures.FOLDER / f"{options.tickets_result}.json"
    found = choices(json.loads(path.read_text(encoding="utf-8"))["units"]) if path.exists() else []
    shape, prompt, wording = (found[0].shape, found[0].prompt, found[0].wording) if found else FALLBACK
    is_usable = bool(found) and found[0].gain >= ENOUGH
    rows = [
        [
            c.shape, c.prompt, c.wording, *(f"{100 * value:.1f}" for value in (c.none, c.initial, c.planted)),
            *(f"{100 * c.gains[name]:+.1f}" if name in c.gains else "-" for name in ("all", *LANGUAGES)),
        ]
        for c in found
    ]  # fmt: skip
    heads = ["shape", "prompt", "wording", "none", "initial", "planted", "gain", *LANGUAGES]
    print(figures.table(heads, rows))
    print(f"best: {shape}, {prompt}, {wording}; usable (10 points or more): {'yes' if is_usable else 'no'}")
    names = {"SHAPE": shape, "PROMPT": prompt, "WORDING": wording}
    if options.variables:
        options.variables.write_text("".join(f"{name}={shlex.quote(value)}\n" for name, value in names.items()))
    figures.write(
        options.result,
        {
            "command": " ".join(["python", *sys.argv]),
            "rule": (__doc__ or "").split("\n\n")[1],
            "chosen": names,
            "usable": is_usable,
            "heads": heads,
            "table": rows,
        },
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
