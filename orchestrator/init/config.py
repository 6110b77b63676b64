"""The settings that follow from the four answers: those of `make evolve`, for another model, other questions and judge.

The search is CMA-ES on clusters of wasted tokens.  It starts from a system prompt and a vector without search
(docs/runs.md), so that no language model has to reflect.  Everything else has Kconfig's default.

A high raise of the end of a turn needs a least number of tokens of an answer.  How many follows from how long short
right answers are, which is known of `make evolve` only.  Elsewhere the bound of the deltas is Kconfig's, as in
configs/gpu.config: answers that it ends early are wrong, and the search counts them (docs/export.md).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from orchestrator.init.asking import WrongAnswer
from orchestrator.init.fitting import POPULATION
from orchestrator.output import writing
from orchestrator.settings import Settings, load_settings

BASE: Mapping[str, str] = {
    "CLUSTERS_BY": "waste", "WASTE_BUCKETS": "6", "EMBEDDER_MODEL": "embedded", "TARGET_SYSTEM_PROMPT": "best",
    "INITIAL_DELTAS_PATH": "best", "PROMPTS_PATH": "shipped", "PROMPTS_RACED": "y", "FINALISTS": "4",
    "OPTIMISER": "cma", "STEP_SIZE": "0.5", "RACING": "off", "OBJECTIVE": "constrained",
    "TOO_LONG": "drop", "POPULATION_SIZE": str(POPULATION), "LAMBDA_SHORTNESS": "0.4", "LAMBDA_CORRECTNESS": "0.6",
    "CXPB": "0.5", "MUTPB": "0.8", "ELITISM_SIZE": "1", "SELECTION": "tournament", "TOURNAMENT_SIZE": "2",
    "TRUNCATION_TOP_K": "2",
}  # fmt: skip
SAMPLE = Path("configs/data/sample_questions.jsonl")
ON_SAMPLE: Mapping[str, str] = {"STEERED_MIN_NEW_TOKENS": "15", "DELTA_BOUND": "18"}
"""Chosen for the embedded model and questions like those of the sample (docs/performance.md)."""


def settings_of(options: Mapping[str, str], generations: int, budget_usd: float, folder: Path) -> Settings:
    """The complete settings; `options` are those of the answers, as a person types them; `folder` is the run's.

    Raises: SettingsError.
    """
    is_sample = options["TARGET_MODEL"] == "embedded" and Path(options["DATA_PATH"]).resolve() == SAMPLE.resolve()
    fitted = {"NGEN": str(generations), "BUDGET_USD": f"{budget_usd:g}", "OUTPUT_DIR": str(folder)}
    chosen = {**BASE, **(ON_SAMPLE if is_sample else {}), **options, **fitted}
    with tempfile.NamedTemporaryFile(suffix=".config") as nothing:
        return load_settings(Path(nothing.name), chosen)


def check_writable(file: Path) -> None:
    """Refuse a file that could not be written.  Nothing is made.  Raises: WrongAnswer, OutputNotWritable."""
    if file.is_dir():
        raise WrongAnswer(f"{file} is a folder: name a file with --config")
    there = next(parent for parent in file.absolute().parents if parent.exists())
    with writing(file), tempfile.TemporaryFile(dir=there):
        pass


def check_output(folder: Path) -> None:
    """Refuse a folder that a run could not take.  Raises: WrongAnswer, OutputNotWritable."""
    if folder.exists() and not folder.is_dir():
        raise WrongAnswer(f"{folder} is no folder: name another one with --output")
    if (folder / "run.json").exists():
        raise WrongAnswer(f"{folder} holds a run: name another folder with --output")
    check_writable(folder / "run.json")


def free_folder() -> Path:
    """A folder for a run that no run has yet: outputs/run, or else outputs/run-2 and so on."""
    folder, number = Path("outputs/run"), 1
    while folder.exists():
        number += 1
        folder = Path(f"outputs/run-{number}")
    return folder
