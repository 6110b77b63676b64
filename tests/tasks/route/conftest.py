"""One policy of the toy world, and one trajectory that has ended."""

from __future__ import annotations

import pytest
from toy_world import toy_policy, trained

from tasks.route.policy import Policy
from tasks.route.state import TrajectoryState


@pytest.fixture(scope="session")
def policy() -> Policy:
    return toy_policy(seed=3)


@pytest.fixture(scope="session")
def finished(policy: Policy) -> TrajectoryState:
    """All splits, six steps."""
    return trained(policy).state
