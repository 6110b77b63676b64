"""Splits on the rollouts of one trajectory: each as if it were alone, and each its own way."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from toy_training import SETTINGS, same_split, trained

from tasks.route.policy import Policy
from tasks.route.splits import Adam, TrajectoryState, deployed_knobs


@pytest.mark.parametrize("names", [("real",), ("random_3",), ("pooled", "uniform")], ids="+".join)
def test_a_split_among_others_is_the_split_alone(
    policy: Policy, finished: TrajectoryState, names: tuple[str, ...]
) -> None:
    alone = trained(policy, replace(SETTINGS, splits=names)).state
    assert len(alone.splits) < len(finished.splits)
    assert torch.equal(alone.whole.value, finished.whole.value)
    for name, split in alone.splits.items():
        assert same_split(split, finished.splits[name]), name
        assert alone.rows[-1]["splits"][name] == finished.rows[-1]["splits"][name]


def test_every_split_routes_and_each_its_own_way(finished: TrajectoryState) -> None:
    routed = {name: split.routed.value for name, split in finished.splits.items() if split.routed.value.any()}
    # A band that a random direction leaves thin or inverted routes nothing, and says so.
    closed = set(finished.splits) - set(routed)
    assert closed <= {"band_random", "permuted", "placebo"}
    assert all("routes nothing" in " ".join(finished.rows[0]["events"]) for _ in closed)
    names = sorted(routed)
    assert not any(torch.equal(routed[one], routed[other]) for one in names for other in names if one < other)


def test_what_is_deployed_under_each_name(finished: TrajectoryState) -> None:
    whole = finished.whole.value
    assert torch.equal(deployed_knobs(finished, "none"), whole)
    assert not deployed_knobs(finished, "untrained").any()
    assert torch.equal(deployed_knobs(finished, "scaled_0.25"), whole * 0.25)


def test_erase_takes_the_hack_ward_part_off_and_learns_the_rest(policy: Policy) -> None:
    settings = replace(SETTINGS, kind="erase", splits=(), adam=Adam(rate=0.02), refresh_every=100)
    erased = trained(policy, settings).state
    plain = trained(policy, replace(settings, kind="shared")).state
    extraction = erased.splits["erase"].extraction
    assert extraction is not None
    layout = policy.adapter.layout
    along = {
        name: layout.sums(deployed_knobs(state, name) * extraction.direction[0])
        for name, state in (("erase", erased), ("none", plain))
    }
    # Knobs move against the gradient, so hack-ward is negative here; no step of `erase` may go there.
    assert (along["erase"] > -1e-6).all() and (along["none"] < along["erase"]).all()
    assert erased.whole.value.abs().max() > 0.05
