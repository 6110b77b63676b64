"""A reflector fails on a real farm with simulated stages; the button is pressed, and the run that waits goes on."""

from __future__ import annotations

from pathlib import Path

from farm_bench import Bench
from flower_process import Flower, eventually
from simulated_run import PLAN, RUN, Driver

NODE = PLAN.node(1, "mut")


def test_the_button_of_a_red_task_ends_as_if_nothing_had_failed(
    driver: Driver, simulated_farm: Bench, tmp_path: Path
) -> None:
    flower = Flower(simulated_farm.url, tmp_path)
    try:
        # Given a run that waits with a failed reflector, red in Flower's list
        driver.set_signal("fail", "reflect", NODE)
        waiting = driver.evaluate(retry_wait_s=60)
        eventually(lambda: flower.run(RUN.id)["failed"], "the reflector fails")
        [failed] = flower.run(RUN.id)["failed"]
        eventually(lambda: flower.rows().get(failed["task"], {}).get("state") == "FAILURE", "the task is red")
        row = flower.row(failed["task"])
        assert (row["name"], row["state"], row["individual"]) == ("openai.reflect", "FAILURE", NODE)
        # When what made it fail is mended and the button is pressed
        driver.clear_signal("fail", "reflect", NODE)
        pressed = flower.client.post(f"/task/retry/{failed['task']}", headers={"Origin": flower.url})
        assert (pressed.status_code, pressed.headers["location"]) == (303, "/runs")
        # Then the run has what an undisturbed one has, and nothing was done twice
        assert [outcome.delta for outcome in waiting.result(timeout=60)] == [0.25] * 3
        assert [driver.began("reflect", PLAN.node(i, "mut")) for i in range(3)] == [1, 2, 1]
        assert [driver.began("answer", PLAN.node(i, "pre")) for i in range(3)] == [1, 1, 1]
        assert flower.run(RUN.id)["failed"] == []
    finally:
        flower.stop()
