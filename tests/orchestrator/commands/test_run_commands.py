"""What one does to a run from another terminal: list failures, and retry them, with other settings too."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from farm_bench import until
from simulated_run import Driver
from simulated_signals import signal_key
from terminal import CHILDREN, Terminal, ended

from orchestrator.runs.folder import run_file

pytestmark = pytest.mark.long


def history(terminal: Terminal) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (terminal.output / "history.jsonl").read_text().splitlines()]


def test_what_failed_is_listed_and_retried_by_name_beside_the_waiting_run(terminal: Terminal, driver: Driver) -> None:
    # Given a run that waits because the reflector failed for both children
    for node in CHILDREN:
        driver.set_signal("fail", "reflect", node)
    running = terminal.evolve("--retry-wait", "100")
    until((terminal.output / "run.json").exists, 60)
    until(lambda: len(driver.store.failed_tasks(run_file(terminal.output)["id"])) == len(CHILDREN), 60)
    status, said = terminal.run("failed", str(terminal.output), "--json")
    failed = sorted((one["node"], one["stage"], one["tries"]) for one in json.loads(said))  # listed by time
    assert (status, failed) == (0, [(node, "reflect", 1) for node in CHILDREN])
    status, said = terminal.run("failed", str(terminal.output))
    assert "g0_child0_mut: reflect failed, tried 1 time, last at" in said
    assert "  RuntimeError: as it was told\n" in said
    # When a name that nothing failed by is retried, then nothing starts
    status, said = terminal.run("retry", str(terminal.output), "g9_child9_mut")
    assert (status, "no failed task is called 'g9_child9_mut'" in said) == (1, True)
    # When one is retried, then it alone is done
    for number, node in enumerate(CHILDREN):
        driver.clear_signal("fail", "reflect", node)
        status, said = terminal.run("retry", str(terminal.output), *CHILDREN[: 1 - number])
        assert (status, said.startswith(f"sent again: reflect of {node} (task ")) == (0, True)
        until(partial(driver.ended, "score", node), 60)
        assert [driver.began("reflect", each) for each in CHILDREN] == [2, 1 + number]
    # And with the last one the run ends, and nothing was done twice
    status, said = ended(running)
    assert status == 0 and "waiting 100 s for a retry" in said, said
    assert terminal.run("failed", str(terminal.output), "--json")[1].strip() == "[]"


def test_the_first_line_of_a_run_names_who_reflects_and_judges_and_the_highest_cost(
    terminal: Terminal, driver: Driver
) -> None:
    prices = {"OPENAI_PRICES": "1 1 1"}
    driver.store.redis.set(signal_key("template", "server", "identity"), "has no system message")
    address = {"NGEN": "1", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    status, said = ended(terminal.evolve(BUDGET_USD="5", **address, **prices))
    assert status == 0, said
    assert said.splitlines()[0].endswith(
        "reflector: gpt-4o at http://127.0.0.1:9/v1; judge: gpt-4o at http://127.0.0.1:9/v1; cost: at most $5.00"
    )
    assert said.count("chat template has no system message") == 1
    # And without prices the cost is unknown, and nowhere free
    status, said = ended(terminal.evolve(**address))
    assert (status, "cost: unknown, since the prices are not set" in said.splitlines()[0]) == (0, True)
    assert "free" not in said
    status, said = terminal.run("status", str(terminal.output))
    assert "cost       unknown" in said
    # Three individuals, and two children before and after their mutation
    assert "7 computed, 0 from the cache, 0 carried over" in said
    assert json.loads(terminal.run("status", str(terminal.output), "--json")[1])["cost_usd"] is None


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
    kinds = ("answer", "verdict", "clustering")
    shared = [key for kind in kinds for key in driver.store.redis.scan_iter(match=f"whetstone:{kind}:*")]
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


def test_a_parked_run_refuses_another_target_server(terminal: Terminal, driver: Driver) -> None:
    # Given a run that parked in generation 1
    version = signal_key("version", "server", "identity")
    driver.store.redis.set(version, "1.0")
    driver.set_signal("fail", "reflect", "g1_child0_mut")
    status, said = ended(terminal.evolve())
    assert status == 3, said
    # What another server has answered since then is computed again
    driver.store.add_server(run_file(terminal.output)["id"], {"version": "1.1"})
    status, said = terminal.run("retry", str(terminal.output))
    assert status == 3 and "a server that is not the run's has answered" in said, said
    kept = {name: (terminal.output / name).read_bytes() for name in ("config", "servers.json", "evolution_state.json")}
    assert json.loads(kept["servers.json"])["servers"] == [{"version": "1.0"}]
    driver.clear_signal("fail", "reflect", "g1_child0_mut")
    judged = driver.began("judge", "g1_child1_pre")
    # When another server answers, then it is refused, both are named, and nothing is asked
    driver.store.redis.set(version, "2.0")
    status, said = terminal.run("retry", str(terminal.output), "--set", "TARGET_CONCURRENCY=61")
    assert status == 1 and "CONFIG_SGLANG_COMMAND: the target server differs from that of the run" in said, said
    assert "version '1.0' is now '2.0'" in said
    assert kept == {name: (terminal.output / name).read_bytes() for name in kept}
    assert not (terminal.output / "settings_changes.json").exists()
    assert driver.began("judge", "g1_child1_pre") == judged
    # When it is as before, then the run goes on, and keeps which server answered
    driver.store.redis.set(version, "1.0")
    status, said = terminal.run("retry", str(terminal.output))
    assert status == 0, said
    assert json.loads((terminal.output / "servers.json").read_text())["servers"] == [{"version": "1.0"}]


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
