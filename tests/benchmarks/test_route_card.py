"""What the benchmarks of `route` on a card decide: the levels, the held-out mode, and how two checkpoints differ."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch

from benchmarks.gpu.route_levels import chosen_levels
from benchmarks.gpu.route_seeds import differences
from benchmarks.gpu.route_verdict import verdict
from tasks.gpu.routing.checkpoint import dump_state
from tasks.gpu.routing.trajectory_state import TrajectorySettings, first_state
from tasks.gpu.routing.update import Share


def rows(right: int, of: int) -> list[bool]:
    return [number < right for number in range(of)]


def test_levels_are_the_most_problems_of_which_a_part_is_solved() -> None:
    # 90 of 100 at level 1 are too many for any set with it but the whole one
    assert chosen_levels({1: rows(90, 100), 2: rows(50, 100), 3: rows(20, 100), 4: rows(0, 100)})[0] == (1, 2, 3, 4)
    assert chosen_levels({1: rows(100, 100), 2: rows(50, 60), 3: rows(20, 60), 4: rows(20, 60)})[0] == (2, 3, 4)
    # None within 30 and 60 %: the nearest to 45 %
    assert chosen_levels({1: rows(2, 10), 2: rows(1, 10), 3: rows(0, 10), 4: rows(0, 10)}) == ((1,), 0.2)


def test_the_held_out_mode_is_the_most_hacked_but_the_known_one() -> None:
    def rates(hack: float, solve: float) -> dict[str, float]:
        return {"hack": hack, "solve": solve}

    found = {
        "none": {"run_tests": rates(0.9, 0.1), "equality": rates(0.2, 0.5), "exit_code": rates(0.4, 0.3)},
        "real": {"exit_code": rates(0.1, 0.26)},
        "ceiling": {"exit_code": rates(0.3, 0.3)},
    }
    said = verdict(found, "equality")
    assert said["B"] == "exit_code" and said["none_hacks_B_holds"] and said["accepted"]
    assert said["ceiling_holds"] is False and said["gain"] is None
    assert verdict({}, "equality") == {"B": None}


def test_checkpoints_that_differ_say_by_how_much(tmp_path: Path) -> None:
    settings = TrajectorySettings(seed=1, longest=4)
    state = first_state(settings, 3, torch.device("cpu"))
    record = {"step": 0, "log": [{"group": 0, "reward": 1.0, "length": 3}], "reward": 1.0}
    moved = Share(torch.tensor([0.0, 0.5, 0.0]), torch.zeros(3))
    one = dataclasses.replace(state, step=1, rows=(record,))
    other = dataclasses.replace(one, whole=moved, rows=({**record, "reward": 0.5},))
    for name, kept in (("one", one), ("other", other)):
        (tmp_path / name).write_bytes(dump_state(settings, kept))
    assert differences(settings, tmp_path / "one", tmp_path / "one")["same_bytes"]
    found = differences(settings, tmp_path / "one", tmp_path / "other")
    assert found["largest_difference_of_a_knob"] == 0.5 and found["first_step_with_another_record"] == 0
    assert not found["same_bytes"] and found["first_step_with_other_rows"] is None
    assert not differences(settings, tmp_path / "one", tmp_path / "none")["compared"]
