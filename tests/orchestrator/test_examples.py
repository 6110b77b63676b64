"""The examples run as they are, from a folder that has the repository's configs and examples."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from farm_bench import Bench
from simulated_signals import signal_key

from orchestrator.api import RunResults, open_run
from tasks.judging.graders import UserFunction

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("WHETSTONE_CACHE") or Path.home() / ".cache" / "whetstone")
SCRIPTS = {"simulated": ("quickstart", "fork"), "embedded": ("quickstart", "own_judge", "fork", "collect")}
"""By farm those that run there, in this order: fork.py needs the first."""

pytestmark = pytest.mark.timeout(600)
on_the_embedded_farm = pytest.mark.parametrize(
    "farm", [pytest.param("embedded", marks=pytest.mark.long)], indirect=True
)


def orchestrator_command(*words: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI_", "WHETSTONE_REDIS"))}
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", *words], env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module", params=["simulated", pytest.param("embedded", marks=pytest.mark.long)])
def farm(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(farm: str, simulated_farm: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the examples run; on an embedded farm that stays up, the vocabulary is clustered once a machine."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "outputs").mkdir()
    (folder / "configs").symlink_to(ROOT / "configs")
    shutil.copytree(ROOT / "examples", folder / "examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PYTHONPATH", str(ROOT))
        if farm == "simulated":
            config = folder / "examples" / "small.config"
            config.write_text(config.read_text().replace('FARM="embedded"', f'FARM="{simulated_farm.url}"'))
            simulated_farm.empty_store()
            for what in ("vary", "reuse"):
                simulated_farm.store.set(signal_key(what, "answer", "each"), 1)
            yield folder
            simulated_farm.empty_store()
            return
        (CACHE / "clusters").mkdir(parents=True, exist_ok=True)
        (folder / "outputs" / "clusters").symlink_to(CACHE / "clusters")
        orchestrator_command("farm", "up", "--config", "examples/small.config")
        try:
            yield folder
        finally:
            orchestrator_command("farm", "down", "--config", "examples/small.config")


@pytest.fixture(scope="module")
def printed(folder: Path, farm: str) -> dict[str, str]:
    """What each script prints; they run one after another, as programs do."""
    found = {}
    for name in SCRIPTS[farm]:
        with redirect_stdout(StringIO()) as out:
            runpy.run_path(str(folder / "examples" / f"{name}.py"), run_name="__main__")
        found[name] = out.getvalue()
    return found


def run_of(folder: Path, name: str) -> RunResults:
    run = open_run(folder / "outputs" / "examples" / name)
    assert run.status.state == "finished"
    return run


def test_the_quickstart_follows_a_run_and_prints_what_it_has_found(folder: Path, printed: dict[str, str]) -> None:
    run = run_of(folder, "quickstart")
    best = [f"generation {g['generation']} of 2: best fitness {g['best_ever']:.4f}" for g in run.generations]
    assert printed["quickstart"].splitlines()[:2] == best
    assert run.report is not None and run.report.conclusion.sentence in printed["quickstart"]
    assert all(one.node in printed["quickstart"] for one in run.individuals)


def test_a_fork_computes_nothing_that_its_origin_has_measured(folder: Path, printed: dict[str, str]) -> None:
    origin, fork = run_of(folder, "quickstart"), run_of(folder, "fork")
    known = {tuple(one.deltas.values()) for one in origin.individuals}
    first = [one for one in fork.individuals if one.generation == 0]
    new = {tuple(one.deltas.values()) for one in first} - known
    counts = fork.generations[0]["evaluations"]
    assert counts["computed"] == len(new)
    assert f"first generation: {counts['computed']} evaluations computed, {counts['cached']} known" in printed["fork"]
    population = [one["node"] for one in origin.generations[1]["population"]]
    members = sorted(map(origin.individual, population), key=lambda m: -m.fitness)
    begun = [one for one in first if one.stage == "pop"]
    assert [(one.deltas, one.scratchpad) for one in begun] == [(one.deltas, one.scratchpad) for one in members]


@on_the_embedded_farm
def test_a_judge_in_ten_lines_steers_the_evolution(folder: Path, printed: dict[str, str]) -> None:
    run = run_of(folder, "own_judge")
    source = (ROOT / "examples" / "own_judge.py").read_text()
    judge = source[source.index("MOST_WORDS") : source.index("if __name__")].strip()
    assert len(judge.splitlines()) <= 10
    # each verdict is what the function says, in the workers as here
    function = UserFunction(str(folder / "examples" / "own_judge.py:brief")).function
    for comparison in run.comparisons:
        for answer in (*comparison.before, *comparison.after):
            assert function(answer.question, answer.gold, answer.text) == [answer.is_correct, answer.reasoning]
    # and the fitness is the judge's alone, so the best is the one of which it finds most answers right
    shares = {one.node: one.correctness for one in run.individuals}
    assert {one.node: one.fitness for one in run.individuals} == pytest.approx(shares)
    assert len(set(shares.values())) > 1 and shares["g0_pop0"] < max(shares.values())
    assert run.generations[-1]["best_ever"] == max(shares.values())
    assert f"best: {max(shares.values()):.0%}" in printed["own_judge"]


@on_the_embedded_farm
def test_a_collection_finds_wasted_tokens(folder: Path, printed: dict[str, str]) -> None:
    run = run_of(folder, "collect")
    assert (run.kind, run.status.done) == ("collect", 2)
    assert "2 of 2 questions" in printed["collect"]
