"""The page of a large run: how long it takes to make and to open, and how large the file is.

The run has 5,000 evaluations in 40 generations, each with a scratchpad of its own, a prompt and a reply, and 1,000
questions in three sets; its files are written by the code that writes those of every run.  The page is opened by a
headless Chromium, without a cache and with a cold start each time; "opened" is the time from the address to the end of
all drawing.  Without Chromium only the size is measured.

    python benchmarks/report_page.py [--evaluations 5000] [--questions 1000]
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import os
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from figures import table, write

from orchestrator.history import write_history
from orchestrator.optimisers.generation import Evaluated, Generation, Genome
from orchestrator.output import OutputFolder
from orchestrator.page.html import page_data, render_page
from orchestrator.report.assessment import assess
from orchestrator.report.document import report_document
from orchestrator.report.front import front_document
from orchestrator.report.statistics import Comparison, JudgedAnswer
from orchestrator.report.systems import MeasuredSystem, Measurement, SystemKind
from orchestrator.results import RunResults
from orchestrator.runs.evolution_tree import EvolutionTree
from orchestrator.runs.individuals import IndividualsFile
from orchestrator.runs.provenance import ClusterOfRun, ClustersOfRun, keep_versions
from orchestrator.settings import load_settings, write_config
from tasks.models import Score

ROOT = Path(__file__).parents[1]
CLUSTERS, GENERATIONS, POPULATION, PROMPTS = 12, 40, 51, 12
WORDS = (ROOT / "README.md").read_text("utf-8").split()
MOST_S, MOST_MB = 3.0, 15.0
ROUNDS = 3


@dataclasses.dataclass(frozen=True)
class Size:
    evaluations: int
    questions: int


def text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=words))


def make_run(folder: Path, size: Size, rng: random.Random) -> None:
    """The output folder of a finished run of this size."""
    output = OutputFolder(folder)
    output.run_id("evolve")
    write_config(load_settings(ROOT / "configs" / "embedded.config", {"NGEN": str(GENERATIONS)}), output.config)
    keep_versions(output)
    clusters = tuple(
        ClusterOfRun(str(i), text(rng, 12), tuple(rng.choices(WORDS, k=12)), 4096) for i in range(CLUSTERS)
    )
    output.write_state("clusters.json", dataclasses.asdict(ClustersOfRun("c", clusters)))
    best = write_search(output, size.evaluations, rng)
    output.write_json("deltas_best.json", {str(i): delta for i, delta in enumerate(best.genome.deltas)})
    sets = {"training": size.questions // 4, "validation": size.questions // 4, "test": size.questions // 2}
    asked = {name: [f"{name}-{i}" for i in range(count)] for name, count in sets.items()}
    output.write_state("questions.json", {name: dict.fromkeys(ids, "0") for name, ids in asked.items()})
    comparisons = [
        Comparison(f"{name} set", *(tuple(answer(rng, one, words) for one in ids) for words in (60, 30)))
        for name, ids in asked.items()
    ]
    output.write_json("answers.json", [dataclasses.asdict(one) for one in comparisons])
    write_report(output, best, comparisons, rng)


def write_search(output: OutputFolder, evaluations: int, rng: random.Random) -> Evaluated:
    """History, tree, individuals and prompts; returns the best of them."""
    ids = tuple(str(i) for i in range(CLUSTERS))
    tree, file, history = EvolutionTree(ids), IndividualsFile(output.individuals, ids), []
    population = [evaluated(rng, f"g0_pop{i}", ()) for i in range(POPULATION)]
    best = population[0]
    for number in range(GENERATIONS):
        offspring: list[Evaluated] = []
        for child in range((evaluations // GENERATIONS - POPULATION) // 2):
            parents = tuple(one.node for one in rng.sample(population, 2))
            pre = evaluated(rng, f"g{number}_child{child}_pre", parents)
            mut = evaluated(rng, f"g{number}_child{child}_mut", (pre.node,), target=rng.randrange(CLUSTERS))
            offspring += [pre, mut]
            prompt = "\n".join(text(rng, 40) for _ in range(30))
            body = (
                f"# mutation, attempt 1: used\n===== system =====\nS\n\n===== user =====\n{prompt}\n===== reply =====\n"
            )
            output.write(f"reflector_prompts/gen_{number}_mutation_{mut.node}.txt", body + text(rng, 60) + "\n")
        best = max([best, *population, *offspring], key=lambda one: one.score.fitness)
        survivors = sorted([*population, *offspring], key=lambda one: -one.score.fitness)[:POPULATION]
        generation = Generation(number, tuple(population), tuple(offspring), tuple(one.node for one in survivors))
        tree.add(generation)
        file.append(generation)
        history.append(line(number, population, offspring, best.score.fitness))
        population = [
            dataclasses.replace(one, node=f"g{number + 1}_pop{i}", parents=(), target=None)
            for i, one in enumerate(survivors)
        ]
    output.write_state("evolution_tree.json", tree.data())
    write_history(output, history)
    output.write_state(
        "usage.json", {"target": 1e7, "requests": 9e4, "prompt": 1e8, "completion": 1e7, "cost_usd": 41.5}
    )
    return best


def evaluated(rng: random.Random, node: str, parents: tuple[str, ...], target: int | None = None) -> Evaluated:
    deltas = tuple(rng.gauss(0, 1) for _ in range(CLUSTERS))
    tokens, right = rng.uniform(20, 90), rng.uniform(0.3, 0.7)
    score = Score(0.4 / (1 + tokens / 50) + 0.6 * right, 1 / (1 + tokens / 50), right, tokens)
    return Evaluated(node, Genome(deltas, text(rng, 150)), score, target, parents)


def line(number: int, population: list[Evaluated], offspring: list[Evaluated], best: float) -> dict[str, Any]:
    """A line of history.jsonl."""

    def scored(one: Evaluated) -> dict[str, Any]:
        return {"node": one.node, **dataclasses.asdict(one.score)}

    fitness = [one.score.fitness for one in population]
    return {
        "generation": number, "best": max(fitness), "mean": statistics.fmean(fitness), "best_ever": best,
        "population": [scored(one) for one in population], "offspring": [scored(one) for one in offspring],
        "evaluations": {"computed": len(offspring), "cached": 0, "carried": len(population)},
        "seconds": {"wall": 60.0, "answer": 300.0, "judge": 40.0, "score": 1.0, "reflect": 90.0},
        "tokens": {"target": 250_000, "prompt": 10_000, "cached": 0, "completion": 1_000}, "calls": 2_000,
        "cost_usd": 1.0,
    }  # fmt: skip


def answer(rng: random.Random, example: str, words: int) -> JudgedAnswer:
    said = text(rng, words)
    return JudgedAnswer(example, 2 * words, rng.random() < 0.6, said, text(rng, 25), text(rng, 5), text(rng, 20))


def write_report(output: OutputFolder, best: Evaluated, comparisons: list[Comparison], rng: random.Random) -> None:
    """report.json and pareto.json, with the plain model, the winner and some prompts."""
    _, validation, test = comparisons

    def measured(answers: tuple[JudgedAnswer, ...], factor: float) -> Measurement:
        tokens = tuple(max(1, round(one.tokens * factor * rng.uniform(0.7, 1.3))) for one in answers)
        return Measurement(
            tuple(one.example for one in answers), tokens, tuple(one.is_correct for one in answers), factor
        )

    def system(name: str, kind: SystemKind, prompt: str, deltas: tuple[float, ...], factor: float) -> MeasuredSystem:
        sides = ("after" if kind == "evolved" else "before",) * 2
        parts = [measured(getattr(one, side), factor) for one, side in zip((validation, test), sides, strict=True)]
        return MeasuredSystem(name, kind, prompt, deltas, *parts)

    systems = [
        system("none", "plain", "Answer.", (), 1.0),
        system(best.node, "evolved", "Answer.", best.genome.deltas, 1.0),
        *(system(f"prompt {i}", "prompt", text(rng, 20), (), 0.5 + i / 20) for i in range(PROMPTS)),
    ]
    assessment = assess("large", systems, best.node, "none", 0.03, 1, 1)
    output.write_json("report.json", report_document(assessment))
    output.write_json("pareto.json", front_document(assessment))


def open_page(path: Path) -> float | None:
    """Seconds until a new browser has drawn the page; None without one."""
    found = os.environ.get("WHETSTONE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if found is None:
        return None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.set_default_timeout(600_000)
            started = time.perf_counter()
            page.goto(path.as_uri())
            page.wait_for_function("document.querySelectorAll('#lineage circle').length > 0")
            page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            return time.perf_counter() - started
        finally:
            browser.close()


def measure(size: Size) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        make_run(folder, size, random.Random(1))
        started = time.perf_counter()
        results = RunResults.open(folder)
        page = render_page(page_data([results]), datetime.datetime.now(datetime.UTC)).encode()
        made_s = time.perf_counter() - started
        path = Path(name) / "report.html"
        path.write_bytes(page)
        opened = [open_page(path) for _ in range(ROUNDS)]
        return {
            "evaluations": len(results.individuals),
            "questions": sum(len(one.after) for one in results.comparisons),
            "prompts": len(results.reflector_calls),
            "made_s": made_s,
            "size_mb": len(page) / 1e6,
            "opened_s": None if None in opened else statistics.median(one for one in opened if one is not None),
            "opened_all_s": opened,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=5000)
    parser.add_argument("--questions", type=int, default=1000)
    arguments = parser.parse_args()
    found = measure(Size(arguments.evaluations, arguments.questions))
    opened = (
        "no Chromium here" if found["opened_s"] is None else f"{found['opened_s']:.2f} s (wanted: under {MOST_S:g})"
    )
    rows = [(name, f"{found[name]:,}") for name in ("evaluations", "questions", "prompts")]
    rows.append(("made in", f"{found['made_s']:.1f} s"))
    rows.append(("size", f"{found['size_mb']:.1f} MB (wanted: under {MOST_MB:g})"))
    rows.append(("opened in", opened))
    print(table(("figure", "value"), rows))
    write("report_page", {"wanted_s": MOST_S, "wanted_mb": MOST_MB, **found})
    if found["size_mb"] > MOST_MB or (found["opened_s"] or 0) > MOST_S:
        raise SystemExit("the page is too large or too slow")


if __name__ == "__main__":
    main()
