"""A run that a callback follows, named on the command line."""

from __future__ import annotations

from pathlib import Path

from simulated_run import Driver
from terminal import Terminal, ended, history

MODULE = """
from pathlib import Path
from orchestrator.callbacks import Callback

class Files(Callback):
    def on_generation(self, run, generation):
        with (run.folder / "told.txt").open("a") as file:
            print(generation.number, generation.record["best_ever"], *generation.deltas.values(), file=file)

    def on_end(self, run, end):
        names = sorted(path.name for path in run.folder.iterdir() if path.name in ("report.txt", "processor_best.py"))
        with (run.folder / "told.txt").open("a") as file:
            print(end.state, run.settings["population_size"], *names, file=file)
        raise ValueError("the server of the tracker is gone")
"""


def test_a_run_is_followed_by_a_callback_that_fails_at_its_end(
    terminal: Terminal, driver: Driver, tmp_path: Path
) -> None:
    (tmp_path / "files.py").write_text(MODULE)
    status, said = ended(terminal.evolve(CALLBACKS=f"{tmp_path}/files.py:Files"))
    assert status == 0, said
    failed = "the callback Files.on_end failed: ValueError: the server of the tracker is gone"
    assert f"{failed}; the run is not affected" in said
    *generations, end = (terminal.output / "told.txt").read_text().splitlines()
    best = [f"{one['generation']} {one['best_ever']}" for one in history(terminal)]
    assert [" ".join(line.split()[:2]) for line in generations] == best
    assert end == "finished 3 processor_best.py report.txt"
    assert "ValueError: the server of the tracker is gone" in (terminal.output / "run.log").read_text()


def test_a_callback_that_is_none_is_refused_before_anything_starts(terminal: Terminal) -> None:
    status, said = ended(terminal.evolve(CALLBACKS="json:JSONDecoder"))
    assert (status, "CONFIG_CALLBACKS: the callback 'json:JSONDecoder' has no on_start" in said) == (1, True)
    assert not terminal.output.exists()
