"""A parked run goes on with another judge or reflector."""

from __future__ import annotations

import json

import pytest
from simulated_run import Driver
from terminal import CHILDREN, Terminal, ended, history

from tasks.openai.provider import NO_MODEL

pytestmark = pytest.mark.long


def assert_strict_judge_judged_both_sides(terminal: Terminal) -> None:
    """The final comparison and everything that its winner was chosen from has verdicts of the strict judge alone."""
    [comparison] = json.loads((terminal.output / "answers.json").read_text())
    for side in ("before", "after"):
        assert [(one["is_correct"], one["reasoning"]) for one in comparison[side]] == [
            (True, "by strict"), (False, "by strict"),
        ]  # fmt: skip
    # 10 tokens at a scale of 50 count 5/6, one right answer of two 1/2, with weights of 0.4 and 0.6
    assert (comparison["fitness_before"], comparison["fitness_after"]) == (pytest.approx(0.4 * 5 / 6 + 0.6 / 2),) * 2
    baselines = json.loads((terminal.output / "baselines.json").read_text())
    prompts = [system["validation"] for system in baselines["systems"] if system["validation"] is not None]
    measured = [baselines["plain"], *prompts]
    assert [one["correct"] for one in measured] == [[True, False]] * len(measured)


def test_a_judge_that_changes_judges_the_population_and_the_best_anew(terminal: Terminal, driver: Driver) -> None:
    # Given a run that parked in generation 1, after the first child was judged
    driver.set_signal("fail", "reflect", "g1_child0_mut")
    status, said = ended(terminal.evolve())
    assert status == 3, said
    assert driver.began("judge", "g1_child0_pre") == 1
    # When it goes on with another judge
    driver.clear_signal("fail", "reflect", "g1_child0_mut")
    status, said = terminal.run("retry", str(terminal.output), "--set", "JUDGE_MODEL=strict", "--plain")
    assert status == 0, said
    # Then the population of that generation, its children and the best individual so far are judged by the new one
    assert driver.began("judge", "g1_child0_pre") == 2
    assert [driver.began("judge", f"g1_pop{index}") for index in range(3)] == [1, 1, 1]
    assert driver.began("judge", "g1_again0") == 1
    before, after = history(terminal)
    assert (before["best"], before["best_ever"], after["best"], after["mean"], after["best_ever"]) == (
        0.5, 0.5, 0.25, 0.25, 0.25
    )  # fmt: skip
    # And the change is on record with its generation, in the history, in a file of its own and in the report
    assert "settings_changed" not in before
    assert after["settings_changed"] == {"JUDGE_MODEL": "strict"}
    [change] = json.loads((terminal.output / "settings_changes.json").read_text())["changes"]
    assert (change["generation"], change["options"]) == (1, {"JUDGE_MODEL": ["gpt-4o", "strict"]})
    report = (terminal.output / "report.txt").read_text()
    assert "changed      JUDGE_MODEL, from generation 1 on" in report
    # And the report names who answered: simulated stages call nobody, whatever models the settings ask for
    assert (report.count(NO_MODEL), "gpt-4o" in report) == (2, False)
    # And the final comparison has one judge
    assert_strict_judge_judged_both_sides(terminal)


def test_a_judge_that_changes_before_the_final_comparison_judges_both_sides_of_it(
    terminal: Terminal, driver: Driver
) -> None:
    driver.set_signal("fail", "judge", "final1")
    status, said = ended(terminal.evolve(NGEN="1"))
    assert (status, driver.ended("judge", "final0")) == (3, 1), said
    driver.clear_signal("fail", "judge", "final1")
    status, said = terminal.run("retry", str(terminal.output), "--set", "JUDGE_MODEL=strict")
    assert (status, driver.ended("judge", "final0"), driver.ended("judge", "final1")) == (0, 2, 1), said
    assert driver.ended("judge", "finalists0") == 2
    assert_strict_judge_judged_both_sides(terminal)


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
    assert (status, "CONFIG_SEED: 7 here, but 42 in the run" in said) == (1, True)
    # When all of that has expired, and the run goes on for another generation, then what is needed is made again
    driver.store.redis.delete(*shared)
    status, said = terminal.run("retry", str(terminal.output), "--set", "NGEN=3")
    assert (status, len(history(terminal))) == (0, 3), said
    [clustering] = driver.store.redis.scan_iter(match="whetstone:clustering:*")
    assert driver.store.redis.hexists(clustering, "labels")
