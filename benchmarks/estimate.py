"""The estimate of `orchestrator init` against the run that it describes, on the embedded engine.

For each run `init` measures the model and writes a .config, and at once `evolve` runs it with an embedded farm and
an empty store.  The run's clock time, with the start and the end of its farm, is compared with the expected time; so
are the seconds of each part, which the run's log has, how many answers its target generated, and how many calls its
judge took.  The rules judge, so that the calls are counted and cost nothing.  Wanted: time within a factor of 1.5.
`python benchmarks/estimate.py [--run "20 evaluations" 12] [--run "20 evaluations" 100] ...`
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

from figures import table, write

from orchestrator.estimate import CallSize
from orchestrator.init.rates import call_sizes
from orchestrator.run_parts import parts_of, planned_work
from orchestrator.runs.search import make_search
from orchestrator.runs.setup import choose_examples
from orchestrator.settings import load_settings
from orchestrator.settings.brevity import prompts_of
from tasks.plan import ExampleSet

WANTED = 1.5
RUNS = (("60 evaluations", "12"), ("20 evaluations", "100"))
PARTS = {
    "system prompts": r"prompts\d+_",
    "reference": "reference",
    "vectors without search": "lines",
    "search": r"g\d+_\w+",
    "choice": "finalists",
    "test": "test",
}
"""By which plans they begin; that for the clusters has the name of the reference, once more."""
ROOT = Path(__file__).parents[1]
ORCHESTRATOR = [sys.executable, "-m", "orchestrator"]
QUESTIONS = ROOT / "configs" / "data" / "sample_questions.jsonl"


def compared(budget: str, rows: int, folder: Path) -> dict[str, Any]:
    """One run: what was expected of it, and what it took."""
    config, output, questions = folder / "run.config", folder / "run", folder / "questions.jsonl"
    questions.write_text("".join(first_rows(rows)))
    given = ["--model", "embedded", "--data", str(questions), "--judge", "rules", "--budget", budget, "--yes", "--json"]
    expected = json.loads(orchestrate("init", *given, "--config", str(config), "--output", str(output)))
    own = [f"FARM_DIR={folder / 'farm'}", f"CLUSTERS_DIR={folder / 'clusters'}"]
    started = time.time()
    orchestrate("evolve", "--config", str(config), "--plain", *(part for one in own for part in ("--set", one)))
    ended = time.time()
    took = ended - started
    spent = seconds_of_parts((output / "run.log").read_text(), started, ended)
    log = (folder / "farm" / "logs" / "target_requests.jsonl").read_text().splitlines()
    return {
        "budget": budget,
        "questions": expected["questions"],
        "generations": expected["generations"],
        "expected_s": expected["expected"]["seconds"],
        "most_s": expected["most"]["seconds"],
        "took_s": took,
        "ratio": took / expected["expected"]["seconds"],
        "expected_answers": sum(part["answers"] for part in expected["parts"]),
        "answers": len(log),
        "expected_calls": expected_calls(config),
        "calls": json.loads(orchestrate("status", str(output), "--json"))["calls"],
        "rates": expected["rates"],
        "parts": [{**part, "took_s": spent[part["name"]]} for part in expected["parts"]],
    }


def seconds_of_parts(log: str, started: float, ended: float) -> dict[str, float]:
    """By name of the part, from the lines in which the run's log begins a plan."""
    plans = re.findall(r"^(\S+ \S+),(\d+) \w+ \S+ (\w+): \d+ of \d+ candidates", log, re.MULTILINE)
    begun, seen, last = [("start", started)], set[str](), ""
    for when, thousandths, plan in plans:
        part = next((name for name, pattern in PARTS.items() if re.fullmatch(pattern, plan)), "")
        part = "clusters" if part == last == "reference" else part
        last = part or last
        if part and part not in seen:
            seen.add(part)
            begun.append((part, datetime.fromisoformat(when).timestamp() + int(thousandths) / 1000))
    ends = [*begun[1:], ("", ended)]
    return defaultdict(float, {name: until - since for (name, since), (_, until) in zip(begun, ends, strict=True)})


def first_rows(count: int) -> list[str]:
    """The lines of the first so many questions of each split."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for line in QUESTIONS.read_text("utf-8").splitlines(keepends=True):
        found[json.loads(line)["split"]].append(line)
    return [line for lines in found.values() for line in lines[:count]]


def orchestrate(*words: str) -> str:
    """What a command prints.  Raises: CalledProcessError."""
    return subprocess.run([*ORCHESTRATOR, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def expected_calls(config: Path) -> float:
    """How many verdicts a language model would have to give, with the settings that the rules have run."""
    settings = load_settings(config)
    examples = choose_examples(settings)
    sizes: dict[ExampleSet, int] = {which: len(examples[which]) for which in get_args(ExampleSet)}
    works = planned_work(make_search(settings))
    parts = parts_of(settings, works, settings.ngen, sizes, len(prompts_of(settings)))
    paid = dataclasses.replace(settings, embedded_endpoint="openai")
    verdict = call_sizes(paid, examples["training"], 0).verdict
    assert isinstance(verdict, CallSize)
    return sum(part.answers for part in parts) * verdict.share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--run", nargs=2, action="append", metavar=("BUDGET", "N"), help="a run with so many questions of each split"
    )
    given, found = parser.parse_args(), []
    for budget, rows in given.run or RUNS:
        with tempfile.TemporaryDirectory() as folder:
            found.append(compared(budget, int(rows), Path(folder)))
            print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    write("estimate", {"runs": found})
    head = ("budget", "questions", "generations", "expected s", "at most s", "took s", "ratio", "answers", "calls")
    print(table(head, [row(one) for one in found]))
    for one in found:
        rows = [(p["name"], str(p["answers"]), f"{p['seconds']:.0f}", f"{p['took_s']:.0f}") for p in one["parts"]]
        print(f"\n{one['budget']}\n" + table(("part", "answers", "expected s", "took s"), rows))
    worst = max(max(one["ratio"], 1 / one["ratio"]) for one in found)
    print(f"\nwithin a factor of {worst:.2f}; wanted: {WANTED}")


def row(one: dict[str, Any]) -> tuple[str, ...]:
    return (
        one["budget"],
        "/".join(str(size) for size in one["questions"].values()),
        str(one["generations"]),
        *(f"{one[name]:.0f}" for name in ("expected_s", "most_s", "took_s")),
        f"{one['ratio']:.2f}",
        f"{one['answers']} of {one['expected_answers']}",
        f"{one['calls']} of {one['expected_calls']:.0f}",
    )


if __name__ == "__main__":
    main()
