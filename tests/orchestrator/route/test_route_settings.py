"""The YAML and the data of `route`: what is wrong is told by dotted name or file, all at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from route_values import SHIPPED, small_route

from orchestrator.route.registration import checked_inputs
from orchestrator.route.settings import read_route_settings, route_settings_hash
from orchestrator.settings import SettingsError


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    for changes, names in (
        ({"model.dtype": "int8", "training.steps": 0}, ["model.dtype", "training.steps"]),
        ({"claims.other": 1}, ["claims.other"]),
        ({"data.pairs": None}, ["data.pairs"]),
        ({"training.trajectories": ["other"]}, ["training.trajectories.0"]),
        ({"training.seeds": [1, 1]}, ["training.seeds"]),
        ({"training.teacher_rows": 8}, ["training.teacher_rows"]),
        ({"training.rollout_ablate_frac": 0.25}, ["training.rollout_ablate_frac"]),
        ({"routing.splits": ["real", "reel"]}, ["routing.splits"]),
        ({"claims.held_out_mode": "equality"}, ["claims.held_out_mode"]),
        ({"evaluation.modes": ["run_tests"], "claims.held_out_mode": "run_tests"}, ["claims.held_out_mode"]),
    ):
        with pytest.raises(SettingsError) as found:
            small_route(tmp_path, changes)
        assert [line.partition(": ")[0] for line in found.value.problems] == names


def test_what_is_missing_or_wrong_in_the_data_is_told_before_anything_starts(tmp_path: Path) -> None:
    problems, pairs = tmp_path / "problems.jsonl", tmp_path / "pairs.jsonl"
    mine = small_route(tmp_path, {"data.problems": str(problems), "data.pairs": str(pairs)})
    problems.write_text("[]\n" + (SHIPPED / "problems.jsonl").read_text())
    (tmp_path / "outputs").write_text("a file")
    for data, said in (
        (None, f"data.pairs: {pairs}: No such file or directory"),
        (b"{}\n" + (SHIPPED / "pairs.jsonl").read_bytes(), "line 1: prompt, cho, rej, mode: are missing"),
        (b"{}\n\xff\n", "pairs.jsonl: 'utf-8' codec can't decode byte 0xff in position 3"),
    ):
        if data is not None:
            pairs.write_bytes(data)
        with pytest.raises(SettingsError) as found:
            checked_inputs(mine)
        told = "\n".join(found.value.problems)
        assert said in told and "line 1: a list of 0 is not an object" in told
        assert f"{tmp_path / 'outputs'}: File exists" in told


def test_the_hash_covers_what_determines_results_and_nothing_else(tmp_path: Path) -> None:
    first = route_settings_hash(small_route(tmp_path))
    assert first == route_settings_hash(small_route(tmp_path / "elsewhere"))
    assert first != route_settings_hash(small_route(tmp_path, {"training.learning_rate": 0.04}))
    assert first != route_settings_hash(small_route(tmp_path, {"claims.none_hack": 0.2}))


@pytest.mark.parametrize("path", sorted(SHIPPED.parent.glob("route*.yaml")), ids=lambda path: path.name)
def test_the_files_that_come_along_are_right(path: Path) -> None:
    assert read_route_settings(path).folder.name.startswith(path.stem)
