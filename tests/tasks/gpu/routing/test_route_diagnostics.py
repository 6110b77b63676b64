"""The diagnostics: each tells a good figure from a bad one."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
import torch

from tasks.gpu.routing.diagnostics import correlation, live_figures
from tasks.gpu.routing.trajectory_state import TrajectoryState
from tasks.route.readings import DIAGNOSTICS, readings


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


GOOD: Mapping[str, Mapping[str, float]] = {
    "hkgap": {"hkgap": 0.5, "first_hkgap": 0.6},
    "separation": {"separation": 0.4, "separation_permuted": 0.1},
    "overlap": {"overlap_previous": 0.9},
    "overlap_quarantine": {"overlap_quarantine": 0.9},
    "calibration": {"x_p10": -0.2, "x_p90": 0.5, "lower": -0.3, "upper": 0.7},
    "shares": {"f_mean": 0.3, "f_at_0": 0.2, "f_at_1": 0.1},
    "resid": {"resid": -0.4, "whole_cosine": 0.2, "lower": -0.3},
    "length": {"x_length": 0.1},
    "surprise": {"x_surprise": -0.1},
    "null": {"x_p90": 0.5, "null_p90": 0.1},
    "not_finite": {"not_finite": 0},
}
# The first look on a real model: live rows between -0.15 and 0.06 in a band from -0.31 to 0.70.
BAD: Mapping[str, Mapping[str, float]] = {
    "hkgap": {"hkgap": 0.14},
    "separation": {"separation": 0.05},
    "overlap": {"overlap_previous": 0.19},
    "overlap_quarantine": {"overlap_quarantine": 0.1},
    "calibration": {"x_p10": -0.15, "x_p90": 0.06, "lower": -0.31, "upper": 0.70},
    "shares": {"f_at_1": 0.0},
    "resid": {"resid": 0.1},
    "length": {"x_length": -0.6},
    "surprise": {"x_surprise": 0.6},
    "null": {"null_p90": 0.6},
    "not_finite": {"not_finite": 1},
}


@pytest.mark.parametrize("name", DIAGNOSTICS)
def test_each_diagnostic_tells_a_good_figure_from_a_bad_one(name: str) -> None:
    ((_, good, fine),) = readings(GOOD[name])
    ((_, bad, wrong),) = readings({**GOOD[name], **BAD[name]})
    assert fine and not wrong
    assert DIAGNOSTICS[name].deviation in bad and DIAGNOSTICS[name].deviation not in good


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
