"""A run whose command is killed at moments of its stages ends with the files of an undisturbed one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from farm_bench import Bench, until
from simulated_run import Driver, finish, signal_key, start_evolve

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
GENERATIONS, MORE = 3, 5
FILES = (
    "systems.json", "report.json", "front.json", "answers.json", "evolution_state.json",
    "individuals.jsonl", "clusters.json", "cluster_sides.json", "deltas_best.json",
)  # fmt: skip
MOMENTS = ("prompts3", "g1_child0_pre", "ordering1", "test1")
"""Nodes of a plan of some stages, in their order."""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def begin(simulated_farm: Bench, driver: Driver, tmp_path: Path) -> Start:
    """Starts a run in the folder of a name, with these prompts in its file."""

    def start(name: str, generations: int = GENERATIONS, prompts: Mapping[str, str] = PROMPTS) -> subprocess.Popen[str]:
        driver.store.redis.set(signal_key("context", "lengths", "each"), CONTEXT)
        for what, stage in (("vary", "answer"), ("reuse", "answer"), ("cut", "answer"), ("thorough", "judge")):
            driver.set_signal(what, stage, "each")
        file = tmp_path / "prompts.yaml"
        file.write_text(json.dumps({"prompts": [{"name": name, "text": text} for name, text in prompts.items()]}))
        options = {**OPTIONS, "PROMPTS_PATH": str(file), "NGEN": str(generations)}
        return start_evolve(simulated_farm.url, tmp_path / name, options)

    return start


def results(folder: Path) -> dict[str, bytes]:
    """The files, without the id of the run."""
    run = OutputFolder(folder).run_id("evolve").encode()
    return {name: (folder / name).read_bytes().replace(run, b"RUN") for name in FILES}


def kill_at(moment: str, running: subprocess.Popen[str], driver: Driver, before: int = 0) -> None:
    """Kill the command when this node, which is held, is at work."""
    until(lambda: driver.began("answer", moment) > before or running.poll() is not None, 240)
    assert running.poll() is None, running.communicate()[0]
    running.kill()
    running.communicate()
    driver.clear_signal("hold", "answer", moment)


@pytest.mark.timeout(900)
def test_a_killed_run_ends_as_an_undisturbed_one_also_with_more_generations(
    begin: Start, simulated_farm: Bench, driver: Driver, tmp_path: Path
) -> None:
    # Given a run that is killed at a moment of several stages
    for moment in MOMENTS:
        driver.set_signal("hold", "answer", moment)
    running = begin("killed")
    for moment in MOMENTS:
        kill_at(moment, running, driver)
        # What the run has measured holds, whatever has become of the file of prompts
        changed = {} if moment == MOMENTS[0] else {"prompts": {"plain": "", "another": "Answer. " * 20}}
        running = begin("killed", **changed)
    finish(running)
    killed = results(tmp_path / "killed")
    # And which is killed once more while it compares its further generations with random vectors
    before = driver.began("answer", "random2")
    driver.set_signal("hold", "answer", "random2")
    kill_at("random2", begin("killed", MORE), driver, before)
    finish(begin("killed", MORE))
    longer = results(tmp_path / "killed")
    # And runs that are not killed, on a store that knows nothing of it
    simulated_farm.empty_store()
    finish(begin("undisturbed"))
    finish(begin("at once", MORE))
    undisturbed, at_once = results(tmp_path / "undisturbed"), results(tmp_path / "at once")
    # Then they have the same files
    for name in FILES:
        assert killed[name] == undisturbed[name], name
    for name in ("individuals.jsonl", "evolution_state.json", "answers.json"):
        assert longer[name] == at_once[name], name
    # And questions that do not fit the doubled cap are not asked
    [plain] = (one for one in json.loads(killed["systems.json"])["systems"] if one["name"] == "plain")
    assert not {"question_0013", "question_0035", "question_0039", "question_0045"} & {*plain["training"]["examples"]}
    # And after more generations the choice is made once more
    books = [json.loads(one["systems.json"]) for one in (longer, at_once)]
    assert [(one["generations"], one["rounds"]) for one in books] == [(MORE, 2), (MORE, 1)]
    assert books[0]["winner"] == books[1]["winner"] and books[0]["order"] == books[1]["order"]
    # The best deltas are those of the highest fitness ever, whichever system wins
    best = max(map(json.loads, longer["individuals.jsonl"].splitlines()), key=lambda one: one["fitness"])
    assert json.loads(longer["deltas_best.json"]) == best["deltas"] and set(best["deltas"].values()) != {0.0}
