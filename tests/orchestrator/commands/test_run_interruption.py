"""A run that ends within a generation leaves the best that is known."""

from __future__ import annotations

import json
import signal

import pytest
from farm_bench import until
from simulated_run import Driver
from simulated_signals import signal_key
from terminal import CHILDREN, Terminal, ended

pytestmark = pytest.mark.long


def test_a_run_that_is_interrupted_in_its_first_generation_leaves_what_is_known(
    terminal: Terminal, driver: Driver
) -> None:
    # Given a run whose population is evaluated, and one of whose children is not
    for node in CHILDREN:
        driver.set_signal("hold", "reflect", node)
    running = terminal.evolve()
    until(lambda: any(driver.began("reflect", node) for node in CHILDREN), 60)
    driver.clear_signal("hold", "reflect", CHILDREN[0])
    until(lambda: driver.ended("score", CHILDREN[0]), 60)
    # When it is interrupted
    running.send_signal(signal.SIGINT)
    status, said = ended(running)
    assert status == 130, said
    # Then its state, its best deltas and their processor are there
    state = json.loads((terminal.output / "evolution_state.json").read_text())
    assert (state["generation"], state["best_individual"]) == (0, None)
    best = json.loads((terminal.output / "deltas_best.json").read_text())
    assert set(best.values()) == {0.0}
    assert "DELTAS = {" in (terminal.output / "processor_best.py").read_text()
    # When it goes on, then the population is not asked again
    for node in CHILDREN:
        driver.clear_signal("hold", "reflect", node)
    status, said = terminal.run("retry", str(terminal.output))
    assert status == 0, said
    assert driver.began("answer", "g0_pop0") == 1


def test_a_run_that_parks_in_a_later_generation_has_the_best_of_that_generation(
    terminal: Terminal, driver: Driver
) -> None:
    # Given a run whose second generation parks after a mutation that was better than all before
    driver.store.redis.set(signal_key("fitness", "score", "g1_child0_mut"), 0.75)
    driver.set_signal("fail", "reflect", "g1_child1_mut")
    status, said = ended(terminal.evolve())
    assert status == 3, said
    # Then the state is that of the start of the generation, and the best deltas are those of the mutation
    state = json.loads((terminal.output / "evolution_state.json").read_text())
    assert (state["generation"], state["best_fitness"]) == (1, 0.5)
    best = json.loads((terminal.output / "deltas_best.json").read_text())
    assert 0.25 in best.values()
    assert "0.25," in (terminal.output / "processor_best.py").read_text()
    # When it goes on, then the result is that of a run that did not park
    driver.clear_signal("fail", "reflect", "g1_child1_mut")
    status, said = terminal.run("retry", str(terminal.output))
    assert status == 0, said
    state = json.loads((terminal.output / "evolution_state.json").read_text())
    assert (state["generation"], state["best_fitness"]) == (2, 0.75)
    # And the best deltas are those of the highest fitness, although the start wins
    assert json.loads((terminal.output / "report.json").read_text())["winner"] == "plain"
    assert 0.25 in json.loads((terminal.output / "deltas_best.json").read_text()).values()
    # And each evaluation is kept once with its deltas: three individuals and two children, before and after mutation
    kept = [json.loads(line) for line in (terminal.output / "individuals.jsonl").read_text().splitlines()]
    assert len(kept) == len({one["node"] for one in kept}) == 2 * (3 + 2 * 2)
    deltas = {one["node"]: sorted(one["deltas"].values()) for one in kept}
    assert (deltas["g0_child0_pre"], deltas["g0_child0_mut"][-1]) == ([0.0] * 12, 0.25)
