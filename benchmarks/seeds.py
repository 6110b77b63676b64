"""`make evolve` with several seeds, each with 100 test questions of its own: what wins, and what it loses.

A seed is that of the search and of the test questions (`make_questions.py --seed`); training and validation questions
are the sample's.  The runs follow one another on one farm, whose store has the answers that an earlier run was given.
The test questions of all runs together give the loss of the winners against the plain model, where plain has won as
well; beside them stand the two rivals that are free in every engine: the limit of tokens and the stop after the first
sentence.  A run that is finished is not repeated.

`python benchmarks/seeds.py --seeds 101-110 --folder WORK`
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "configs/data"))

import make_questions

from benchmarks import figures
from orchestrator.evolve.closing import FIRST_SENTENCE
from orchestrator.evolve.systems import System, read_book
from orchestrator.report.statistics import Measurement, correctness_change, non_inferiority, token_ratio
from orchestrator.runs.folder import OutputFolder

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "configs/evolve.config"
SAMPLE = ROOT / "configs/data/sample_questions.jsonl"
MARGIN = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="101-110", help="first and last")
    parser.add_argument("--folder", type=Path, required=True, help="takes the runs and their farm")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split("-"))
    runs = {seed: evolve(seed, options.folder.resolve()) for seed in range(first, last + 1)}
    rows = [[str(seed), *row(name, one)] for seed, run in runs.items() for name, one in run.items()]
    together = {name: joined([run[name] for run in runs.values()]) for name in ("plain", "winner", "limit", "stop")}
    rows += [["all", *row(name, one)] for name, one in together.items()]
    print(figures.table(["seed", "system", "tokens", "right", "whole", "correct"], rows))
    plain, winner = together["plain"], together["winner"]
    change = correctness_change(plain["correct"], winner["correct"])
    found = {
        "not plain": sum(run["winner"]["name"] != "plain" for run in runs.values()),
        "ratio": asdict(token_ratio(plain["tokens"], winner["tokens"], 0)),
        "change": asdict(change),
        "loss": asdict(non_inferiority(change, MARGIN)),
    }
    print(json.dumps(found, indent=1))
    counts = {seed: {name: summary(one) for name, one in run.items()} for seed, run in runs.items()}
    totals = {name: summary(one) for name, one in together.items()}
    command = " ".join(["python", *sys.argv])
    figures.write("seeds", {"command": command, **found, "together": totals, "runs": counts})


def evolve(seed: int, folder: Path) -> dict[str, dict[str, Any]]:
    """The plain model, the winner and its free rivals on the test questions of a seed."""
    data, output = folder / f"questions_{seed}.jsonl", folder / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    sample = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
    drawn = make_questions.make_rows(seed, make_questions.EACH, 0, 0)
    rows = [one for one in sample if one["split"] != "test"] + [one for one in drawn if one["split"] == "test"]
    data.write_text("".join(json.dumps({**one, "id": f"{n}"}) + "\n" for n, one in enumerate(rows)))
    if not (output / "report.json").exists():
        settings = {"DATA_PATH": data, "TEST": "test", "SEED": seed, "FARM_DIR": folder / "farm"}
        sets = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        command = [sys.executable, "-m", "orchestrator", "evolve", "--config", str(CONFIG), "--output", str(output)]
        with (folder / f"{seed}.log").open("w") as log:
            subprocess.run([*command, *sets, "--plain"], check=True, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    book = read_book(OutputFolder(output))
    winner = book.system(book.winner)
    limit = next((one for one in book.systems if one.max_tokens and one.test), winner)
    stop = next((one for one in book.systems if one.name == FIRST_SENTENCE and one.test), winner)
    return {"plain": of(book.plain), "winner": of(winner), "limit": of(limit), "stop": of(stop)}


def of(system: System) -> dict[str, Any]:
    found: Measurement = system.on("test")
    return {
        "name": system.name,
        "tokens": found.tokens,
        "right": found.right,
        "whole": found.whole,
        "correct": found.correct,
    }


def joined(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: [value for run in runs for value in run[name]] for name in ("tokens", "right", "whole", "correct")}


def summary(one: Mapping[str, Any]) -> dict[str, Any]:
    counts = {name: sum(one[name]) for name in ("right", "whole", "correct")}
    return {"name": one.get("name", ""), "mean_tokens": sum(one["tokens"]) / len(one["tokens"]), **counts}


def row(kind: str, one: Mapping[str, Any]) -> list[str]:
    found = summary(one)
    name = f"{kind}: {found['name']}" if found["name"] not in ("", kind) else kind
    return [name, f"{found['mean_tokens']:.1f}", *(str(found[key]) for key in ("right", "whole", "correct"))]


if __name__ == "__main__":
    main()
