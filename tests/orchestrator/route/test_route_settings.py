"""The YAML of `route`: what is wrong is told by dotted name, all at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from route_values import small_route

from orchestrator.cli import main
from orchestrator.route.settings import read_route_settings, route_settings_hash
from orchestrator.settings import SettingsError

CONFIGS = Path(__file__).parents[3] / "configs"


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    for changes, name in (
        ({"world": "programs"}, "world"),
        ({"data__pairs": None}, "data.pairs"),
        ({"training__trajectories": ["other"]}, "training.trajectories"),
        ({"training__seeds": [1, 1]}, "training.seeds"),
        ({"training__teacher_rows": 8}, "training.teacher_rows"),
        ({"evaluation__scales": [0.5, 0.5000001]}, "evaluation.scales"),
        ({"training__rollout_ablate_frac": 0.25}, "training.rollout_ablate_frac"),
        ({"training__trajectories": ["ablated"]}, "training.rollout_ablate_frac"),
        ({"routing__splits": ["real", "reel"]}, "routing.splits"),
        ({"training__modes": ["luck"]}, "training.modes"),
        ({"claims__held_out_mode": "equality"}, "claims.held_out_mode"),
        (
            {"evaluation__modes": ["run_tests"], "claims__held_out_mode": "run_tests"},
            "claims.held_out_mode",
        ),
        ({"evaluation__modes": ["none"], "claims__held_out_mode": "none"}, "claims.held_out_mode"),
        ({"claims__other": 1}, "claims.other"),
    ):
        with pytest.raises(SettingsError) as found:
            small_route(tmp_path, **changes)
        assert any(line.startswith((f"{name}: ", f"{name}.")) for line in found.value.problems), name


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as found:
        small_route(tmp_path, model__dtype="int8", training__steps=0, evaluation__samples=None)
    names = [line.partition(":")[0] for line in found.value.problems]
    assert names == ["model.dtype", "training.steps", "evaluation.samples"]


def test_the_hash_covers_what_determines_results_and_nothing_else(tmp_path: Path) -> None:
    first = route_settings_hash(small_route(tmp_path))
    assert first == route_settings_hash(small_route(tmp_path / "elsewhere"))
    assert first != route_settings_hash(small_route(tmp_path, training__learning_rate=0.04))
    assert first != route_settings_hash(small_route(tmp_path, claims__none_hack=0.2))


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("route*.yaml")), ids=lambda path: path.name)
def test_the_files_that_come_along_are_right(path: Path) -> None:
    settings = read_route_settings(path)
    assert settings.folder.name.startswith(path.stem)


def test_wrong_arguments_and_files_exit_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "route.yaml").write_text("data: 3\n")
    assert main(["route"]) == 1
    assert "--config: is missing" in capsys.readouterr().err
    assert main(["route", "--config", str(tmp_path / "route.yaml"), "--plan"]) == 1
    said = capsys.readouterr().err
    assert "orchestrator: data: " in said and "orchestrator: training: is missing" in said
    assert main(["route", "report", str(tmp_path)]) == 1
