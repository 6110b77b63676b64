"""What the figures of a training should be: each diagnostic tells a good figure from a bad one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tasks.route.readings import DIAGNOSTICS, readings

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
