"""A parked run goes on with another reflector, and not with another judge."""

from __future__ import annotations

import pytest
from simulated_run import Driver
from terminal import CHILDREN, Terminal, ended, history

pytestmark = pytest.mark.long


def test_a_parked_run_goes_on_with_another_reflector_and_repeats_nothing(terminal: Terminal, driver: Driver) -> None:
    # Given a run whose reflector's reply was cut
    driver.set_signal("fail", "reflect", CHILDREN[0])
    status, said = ended(terminal.evolve())
    assert status == 3, said
    judged = {node: driver.began("judge", node) for node in ("g0_pop0", "g0_child0_pre", "g0_child1_mut")}
    # When it goes on with a longer limit and another model
    driver.clear_signal("fail", "reflect", CHILDREN[0])
    changes = ["--set", "REFLECTOR_MAX_COMPLETION_TOKENS=8192", "--set", "REFLECTOR_MODEL=larger"]
    status, said = terminal.run("retry", str(terminal.output), *changes)
    assert status == 0, said
    # Then nothing that was judged is judged again, and the change holds from generation 0 on
    assert {node: driver.began("judge", node) for node in judged} == judged
    assert history(terminal)[0]["settings_changed"] == {
        "REFLECTOR_MODEL": "larger", "REFLECTOR_MAX_COMPLETION_TOKENS": "8192",
    }  # fmt: skip
    # And it holds none of its answers and verdicts any more: they expire
    shared = [
        key
        for kind in ("answer", "verdict", "clustering")
        for key in driver.store.redis.scan_iter(match=f"whetstone:{kind}:*")
    ]
    assert shared and all(driver.store.redis.ttl(key) > 0 for key in shared)
    # But what would make it another run is refused
    status, said = terminal.run("retry", str(terminal.output), "--set", "SEED=7")
    assert (status, "CONFIG_SEED" in said) == (1, True)
    status, said = terminal.run("retry", str(terminal.output), "--set", "JUDGE_MODEL=strict")
    assert (status, "CONFIG_JUDGE_MODEL" in said) == (1, True)
    # When all of that has expired, and the run goes on for another generation, then what is needed is made again
    driver.store.redis.delete(*shared)
    status, said = terminal.run("retry", str(terminal.output), "--set", "NGEN=3")
    assert (status, len(history(terminal))) == (0, 3), said
    [clustering] = driver.store.redis.scan_iter(match="whetstone:clustering:*")
    assert driver.store.redis.hexists(clustering, "labels")
