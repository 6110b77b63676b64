"""A run whose command is killed at a moment of each of its stages ends with the files of an undisturbed one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest
from farm_bench import Bench, until
from simulated_evolve import finish, start_evolve
from simulated_run import Driver
from simulated_signals import signal_key

from orchestrator.runs.folder import OutputFolder

PROMPTS = {"plain": "", "short": "Be concise.", "80 words": "Use 80 words.", "useless": "Answer.", "more": "Say more."}
OPTIONS = {
    "WHOLE": "y", "CLUSTERS_BY": "waste", "CLUSTERS": "8", "INITIAL_DELTAS_PATH": "zero", "OBJECTIVE": "constrained",
    "TRAINING": "train[0:48]", "VALIDATION": "validation[0:20]", "TEST": "test[0:8]", "MARGIN": "0.4",
    "POPULATION_SIZE": "2", "MUTPB": "1", "SEED": "5", "TARGET_MAX_NEW_TOKENS": "64", "TOO_LONG": "drop",
}  # fmt: skip
"""The clusters by waste are 12, as many as the simulated farm makes."""
CONTEXT = 496
"""All questions fit with answers of 64 tokens.  The cap is doubled once, and then the longest do not."""
FILES = (
    "systems.json", "report.json", "front.json", "answers.json", "evolution_state.json",
    "individuals.jsonl", "clusters.json", "cluster_sides.json", "deltas_best.json",
)  # fmt: skip
MOMENTS = ("plain0", "prompts3", "vectors6", "g1_child0_pre", "random2", "ordering1", "validation0", "test1", "rivals1")
"""Nodes of a plan of each stage, in their order, the last ones of it where it has several."""


class Start(Protocol):
    def __call__(
        self, name: str, prompts: Mapping[str, str] = PROMPTS, generations: int = 4
    ) -> subprocess.Popen[str]: ...


@pytest.fixture
def begin(simulated_farm: Bench, driver: Driver, tmp_path: Path) -> Start:
    """Starts a run in the folder of a name, with these prompts in its file."""
    driver.store.redis.set(signal_key("context", "lengths", "each"), CONTEXT)
    for what, stage in (("vary", "answer"), ("reuse", "answer"), ("cut", "answer"), ("thorough", "judge")):
        driver.store.redis.set(signal_key(what, stage, "each"), 1)

    def start(name: str, prompts: Mapping[str, str] = PROMPTS, generations: int = 4) -> subprocess.Popen[str]:
        file = tmp_path / "prompts.yaml"
        file.write_text(json.dumps({"prompts": [{"name": name, "text": text} for name, text in prompts.items()]}))
        options = {**OPTIONS, "PROMPTS_PATH": str(file), "NGEN": str(generations)}
        return start_evolve(simulated_farm.url, tmp_path / name, options)

    return start


def results(folder: Path) -> dict[str, bytes]:
    """The files, without the id of the run."""
    run = OutputFolder(folder).run_id("evolve").encode()
    return {name: (folder / name).read_bytes().replace(run, b"RUN") for name in FILES}


def began_or_ended(driver: Driver, node: str, process: subprocess.Popen[str]) -> bool:
    return driver.began("answer", node) > 0 or process.poll() is not None


def test_a_run_that_is_killed_in_each_stage_ends_as_an_undisturbed_one(
    begin: Start, driver: Driver, tmp_path: Path
) -> None:
    for moment in MOMENTS:
        driver.set_signal("hold", "answer", moment)
    running = begin("killed")
    for moment in MOMENTS:
        until(partial(began_or_ended, driver, moment, running), 60)
        assert running.poll() is None, running.communicate()[0]
        running.kill()
        running.communicate()
        driver.clear_signal("hold", "answer", moment)
        # What the run has measured holds, whatever has become of the file of prompts
        running = begin("killed", PROMPTS if moment in MOMENTS[:3] else {"plain": "", "another": "Answer. " * 20})
    finish(running)
    keys: Any = driver.store.redis.keys("*")
    for key in keys:
        if b":worker" not in key and not key.startswith(b"test:"):
            driver.store.redis.delete(key)
    finish(begin("undisturbed"))
    killed, undisturbed = results(tmp_path / "killed"), results(tmp_path / "undisturbed")
    for name in FILES:
        assert killed[name] == undisturbed[name], name
    [plain] = (one for one in json.loads(killed["systems.json"])["systems"] if one["name"] == "plain")
    assert not {"question_0013", "question_0035", "question_0039", "question_0045"} & {*plain["training"]["examples"]}


def test_more_generations_choose_again_also_after_a_kill_and_end_as_a_run_that_had_them_at_once(
    begin: Start, driver: Driver, tmp_path: Path
) -> None:
    finish(begin("longer"))
    driver.set_signal("hold", "answer", "random4")
    before, running = driver.began("answer", "random4"), begin("longer", generations=7)
    until(lambda: driver.began("answer", "random4") > before or running.poll() is not None, 60)
    assert running.poll() is None, running.communicate()[0]
    running.kill()
    running.communicate()
    driver.clear_signal("hold", "answer", "random4")
    finish(begin("longer", generations=7))
    finish(begin("at once", generations=7))
    longer, at_once = results(tmp_path / "longer"), results(tmp_path / "at once")
    for name in ("individuals.jsonl", "evolution_state.json", "answers.json"):
        assert longer[name] == at_once[name], name
    books = [json.loads(one["systems.json"]) for one in (longer, at_once)]
    assert [(one["generations"], one["rounds"]) for one in books] == [(7, 2), (7, 1)]
    assert books[0]["winner"] == books[1]["winner"] and books[0]["order"] == books[1]["order"]
    # The best deltas are those of the highest fitness ever, whichever system wins
    best = max(map(json.loads, longer["individuals.jsonl"].splitlines()), key=lambda one: one["fitness"])
    assert json.loads(longer["deltas_best.json"]) == best["deltas"] and set(best["deltas"].values()) != {0.0}
