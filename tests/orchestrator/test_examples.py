"""The examples run as they are, from a folder that has the repository's configs and examples."""

from __future__ import annotations

import os
import runpy
import shutil
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from farm_bench import Bench
from simulated_run import signal_key

from orchestrator.api import RunResults, open_run
from tasks.judging.graders import UserFunction

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("WHETSTONE_CACHE") or Path.home() / ".cache" / "whetstone")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder; the vocabulary of the embedded model is clustered once a machine."""
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (CACHE / "clusters").mkdir(parents=True, exist_ok=True)
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "clusters").symlink_to(CACHE / "clusters")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


def run_example(name: str) -> tuple[str, RunResults]:
    """Run a script as a program; gives what it prints, and its run."""
    with redirect_stdout(StringIO()) as out:
        runpy.run_path(f"examples/{name}.py", run_name="__main__")
    run = open_run(Path("outputs/examples") / name)
    assert run.status.state == "finished"
    return out.getvalue(), run


def test_the_quickstart_is_followed_and_a_fork_computes_nothing_that_it_has_measured(
    folder: Path, simulated_farm: Bench
) -> None:
    config = folder / "examples" / "small.config"
    config.write_text(config.read_text().replace('FARM="embedded"', f'FARM="{simulated_farm.url}"'))
    simulated_farm.empty_store()
    simulated_farm.store.set(signal_key("vary", "answer", "each"), 1)
    printed, origin = run_example("quickstart")
    best = [f"generation {g['generation']} of 2: best fitness {g['best_ever']:.4f}" for g in origin.generations]
    assert printed.splitlines()[:2] == best
    assert origin.report is not None and origin.report.conclusion.sentence in printed
    assert all(one.node in printed for one in origin.individuals)

    printed, fork = run_example("fork")
    known = {tuple(one.deltas.values()) for one in origin.individuals}
    first = [one for one in fork.individuals if one.generation == 0]
    counts = fork.generations[0]["evaluations"]
    assert counts["computed"] == len({tuple(one.deltas.values()) for one in first} - known)
    assert f"first generation: {counts['computed']} evaluations computed, {counts['cached']} known" in printed
    simulated_farm.empty_store()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_judge_in_ten_lines_steers_the_evolution_and_a_collection_finds_wasted_tokens(folder: Path) -> None:
    printed, run = run_example("own_judge")
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
    assert f"best: {max(shares.values()):.0%}" in printed

    printed, run = run_example("collect")
    assert (run.kind, run.status.done) == ("collect", 2)
    assert "2 of 2 questions" in printed
