"""A run that is tracked: what its tracker has after two sessions."""

from __future__ import annotations

from simulated_run import Driver
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from terminal import CHILDREN, Terminal, ended, history


def test_a_tracker_has_each_generation_of_a_run_once_over_its_sessions(terminal: Terminal, driver: Driver) -> None:
    # Given a run that parked because the reflector failed for one child, and was retried
    driver.set_signal("fail", "reflect", CHILDREN[0])
    status, said = ended(terminal.evolve(CALLBACKS="examples/trackers.py:TensorboardTracker"))
    assert status == 3, said
    driver.clear_signal("fail", "reflect", CHILDREN[0])
    status, said = terminal.run("retry", str(terminal.output))
    assert status == 0, said
    # Then its tracker has each generation once
    events = EventAccumulator(str(terminal.output / "tensorboard")).Reload()
    best = [(line["generation"], line["best"]) for line in history(terminal)]
    assert [(each.step, each.value) for each in events.Scalars("fitness/best")] == best
