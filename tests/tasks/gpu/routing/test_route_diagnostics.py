"""The figures of a training that are read without labels."""

from __future__ import annotations

import json

import pytest
import torch

from tasks.gpu.routing.diagnostics import correlation, live_figures
from tasks.gpu.routing.trajectory_state import TrajectoryState
from tasks.route.readings import readings


def test_the_record_is_json_and_is_read_with_what_each_figure_should_be(finished: TrajectoryState) -> None:
    json.dumps(finished.rows, allow_nan=False)
    record = finished.rows[0]["splits"]["real"]
    assert {name for name, _, _ in readings(record)} >= {
        "hkgap",
        "separation",
        "calibration",
        "shares",
        "resid",
        "null",
    }
    assert {name: fine for name, _, fine in readings(record)}["separation"]
    with_previous = finished.rows[3]["splits"]["real"]
    assert "overlap" in {name for name, _, _ in readings(with_previous)}


def test_live_figures_count_students_and_teachers_apart() -> None:
    x = torch.tensor([[0.0], [0.2], [0.4], [0.6]])
    shares = torch.tensor([[0.0], [0.5], [1.0], [1.0]])
    live = torch.tensor([[True], [True], [True], [True]])
    teacher = torch.tensor([False, False, False, True])
    lengths = torch.tensor([1.0, 2.0, 3.0, 4.0])
    found = live_figures(x, shares, live, teacher, lengths, torch.ones(4))
    assert found["x_p50"] == pytest.approx(0.3) and found["x_p90"] == pytest.approx(0.54)
    assert (found["f_mean"], found["teacher_f_mean"]) == (0.5, 1.0)
    assert found["f_at_0"] == found["f_at_1"] == pytest.approx(1 / 3)
    assert found["x_length"] == pytest.approx(1) and found["x_surprise"] is None
    assert live_figures(x, shares, ~live, teacher, lengths, lengths) == {}
    assert correlation(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 1.0])) == pytest.approx(-1)
