"""Races of whole plans, on simulated answers; and on a farm, where a run is killed in one and continues."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from farm_bench import until
from simulated_evolve import CONFIG, ROOT, finish, start_evolve
from simulated_run import Driver

from orchestrator.optimisers.racing import Partial
from orchestrator.runs.racing import Racing, partials_of, search_race
from orchestrator.runs.search import make_search
from orchestrator.settings import load_settings
from orchestrator.settings.run import is_racing
from tasks.models import Fitness
from tasks.objective import score_answers
from tasks.plan import Candidate, Merge, Outcome, Plan, whole_name

COUNT = 40
OBJECTIVE = Fitness(0.4, 0.6, 50.0)
START = (0.0, 0.0)


class Simulated:
    """Answers of a length that the sum of the deltas gives, question by question with some noise."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []

    def __call__(self, plan: Plan) -> list[Outcome]:
        self.plans.append(plan)
        found = self.partials(plan)
        scores = {i: score_answers(partial.tokens, partial.correct, OBJECTIVE) for i, partial in found.items()}
        return [
            Outcome(c.index, c.scratchpad, scores[c.index], None, c.scratchpad, None, {"answer": 1.0})
            for c in plan.candidates
        ]

    def partials(self, plan: Plan) -> Mapping[int, Partial]:
        return {c.index: self.partial(c) for c in plan.candidates}

    def partial(self, candidate: Candidate) -> Partial:
        rng = random.Random(str(candidate.deltas))
        tokens = [100 * 2 ** sum(candidate.deltas) * rng.uniform(0.8, 1.2) for _ in range(COUNT)]
        count = candidate.questions or COUNT
        return Partial(tuple(tokens[:count]), (True,) * count)

    @property
    def answered(self) -> int:
        """Questions that were answered, each of a candidate once."""
        asked: dict[object, int] = {}
        for plan in self.plans:
            for c in plan.candidates:
                asked[c.deltas] = max(asked.get(c.deltas, 0), c.questions or COUNT)
        return sum(asked.values())


def race(farm: Simulated, plan: Plan, places: int = 1, reference: tuple[float, ...] = START) -> list[Outcome]:
    return Racing(farm, farm.partials, search_race(COUNT), places, OBJECTIVE)(plan, reference)


def plan_of(*sums: float, **fields: Any) -> Plan:
    return Plan("g3_pop", 3, tuple(Candidate(i, (s, 0.0), **fields) for i, s in enumerate(sums)))


def test_the_worse_candidates_stop_and_their_scores_are_projected() -> None:
    # Given eight candidates of very different lengths
    farm, plan = Simulated(), plan_of(*(0.5 * i - 2.5 for i in range(8)))
    # When they race for one place
    outcomes = race(farm, plan)
    # Then each has an outcome, in the plan's order, and the shortest has answered everything
    assert [outcome.index for outcome in outcomes] == list(range(8))
    assert outcomes[0].stopped is None
    stopped = [outcome for outcome in outcomes if outcome.stopped]
    assert len(stopped) >= 5 and farm.answered < 0.6 * 8 * COUNT
    # And what is projected is close to the truth
    for outcome in stopped:
        assert outcome.stopped is not None and outcome.stopped[0] < outcome.stopped[1] == COUNT
        truth = farm.partial(plan.candidates[outcome.index]).means(COUNT)[0]
        assert outcome.pre.mean_tokens == pytest.approx(truth, rel=0.15)
        assert outcome.pre.fitness < outcomes[0].pre.fitness
        assert outcome.seconds["answer"] >= 1


def test_each_rung_is_a_plan_of_its_own_and_the_plan_itself_comes_last() -> None:
    farm = Simulated()
    race(farm, plan_of(*(0.5 * i - 2.5 for i in range(8))), reference=(9.0, 9.0))
    names = [plan.name for plan in farm.plans]
    assert names[0] == "g3_rung1_pop" and names[-1] == "g3_pop"
    assert {whole_name(name) for name in names} == {"g3_pop"} and len(set(names)) == len(names)
    # The reference is one more candidate of the first rung, and answers everything there
    first = farm.plans[0].candidates
    assert (first[0].index, first[0].deltas, first[0].questions) == (8, (9.0, 9.0), COUNT)
    assert {candidate.questions for candidate in first[1:]} == {5}
    assert all(candidate.questions == 0 for candidate in farm.plans[-1].candidates)
    assert all(candidate.index < 8 for candidate in farm.plans[-1].candidates)


def test_the_start_of_a_search_is_the_reference_of_its_first_generation() -> None:
    farm = Simulated()
    outcomes = race(farm, plan_of(0.0, *(0.5 * i - 2.5 for i in range(1, 8))))
    assert [c.index for c in farm.plans[0].candidates if c.questions == COUNT] == [0]
    assert outcomes[0].stopped is None


def test_when_the_best_so_far_beats_them_all_none_goes_on() -> None:
    farm = Simulated()
    outcomes = race(farm, plan_of(1.0, 1.5, 2.0, 2.5), reference=(-3.0, 0.0))
    assert all(outcome.stopped for outcome in outcomes)
    assert all(plan.name.startswith("g3_rung") for plan in farm.plans)


def test_what_the_reflector_changes_answers_everything() -> None:
    farm = Simulated()
    children = [Candidate(8, START, target=1), Candidate(9, START, merge=Merge("a", 1, "b", 1)), Candidate(10, START)]
    plan = plan_of(*(0.5 * i - 2.5 for i in range(8)))
    children[2] = dataclasses.replace(children[2], rewrite=True)
    outcomes = race(farm, dataclasses.replace(plan, candidates=(*plan.candidates, *children)), reference=(3.0, 0.0))
    assert [outcome.stopped for outcome in outcomes[8:]] == [None] * 3
    assert {c.index for plan in farm.plans[:-1] for c in plan.candidates if c.index in (8, 9, 10)} == set()


def test_few_candidates_or_few_questions_are_no_race() -> None:
    farm = Simulated()
    race(farm, plan_of(0.0, 1.0), places=2)
    Racing(farm, farm.partials, search_race(4), 1, OBJECTIVE)(plan_of(0.0, 1.0, 2.0), START)
    assert [plan.name for plan in farm.plans] == ["g3_pop", "g3_pop"]


def test_for_the_front_only_what_is_dominated_stops() -> None:
    farm = Simulated()
    outcomes = race(farm, plan_of(-2.0, -1.0, 0.0, 1.0), places=0)
    assert outcomes[0].stopped is None and outcomes[3].stopped is not None


def test_several_samples_of_a_question_count_as_their_mean() -> None:
    records = {
        "0:pre:answer": {"answers": [{"tokens": tokens} for tokens in (1, 2, 10, 20)]},
        "0:pre:judge": {"verdicts": [{"is_correct": correct} for correct in (True, False, True, True)]},
    }
    assert partials_of(plan_of(0.0), records, 2) == {0: Partial((1.5, 15.0), (0.5, 1.0))}


@pytest.mark.parametrize(
    ("overrides", "raced"),
    [([], False), (["OPTIMISER=cma"], True), (["OPTIMISER=cma", "RACING=off"], False), (["RACING=on"], True)],
)
def test_who_races_by_default(monkeypatch: pytest.MonkeyPatch, overrides: list[str], raced: bool) -> None:
    monkeypatch.chdir(ROOT)
    assert is_racing(load_settings(CONFIG, overrides)) is raced


@pytest.mark.parametrize(
    ("name", "places"), [("cma", 4), ("hybrid", 4), ("random", 1), ("nsga2", 0), ("reflective", 4)]
)
def test_how_many_places_each_optimiser_has(monkeypatch: pytest.MonkeyPatch, name: str, places: int) -> None:
    monkeypatch.chdir(ROOT)
    options = [f"OPTIMISER={name}", "POPULATION_SIZE=16"]
    search = make_search(load_settings(CONFIG, options))
    assert search.optimiser.places(search.params) == places


# On a farm of real workers, whose stages are simulated


OPTIONS = {
    "OPTIMISER": "cma", "POPULATION_SIZE": "6", "NGEN": "3", "PATIENCE": "3",
    "TRAINING_INDICES": "0-11", "VALIDATION_INDICES": "0-3", "TEST_INDICES": "0-1",
}  # fmt: skip
FILES = ("evolution_state.json", "evolution_tree.json", "individuals.jsonl", "answers.json", "deltas_best.json")


def test_a_run_that_is_killed_in_a_race_makes_the_same_decisions(
    driver: Driver, simulated_farm: Any, tmp_path: Path
) -> None:
    # Given a run that finished
    driver.set_signal("vary", "answer", "each")
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    finish(start_evolve(simulated_farm.url, calm, OPTIONS))
    # When another is killed while a rung of its second generation is held, and started again
    driver.set_signal("hold", "judge", "g1_rung2_pop2")
    driver.set_signal("hold", "judge", "g1_rung1_pop2")
    began = driver.began("judge", "g1_rung1_pop2")
    process = start_evolve(simulated_farm.url, killed, OPTIONS)
    until(lambda: driver.began("judge", "g1_rung1_pop2") > began, 60)
    process.kill()
    process.communicate()
    driver.clear_signal("hold", "judge", "g1_rung1_pop2")
    driver.clear_signal("hold", "judge", "g1_rung2_pop2")
    finish(start_evolve(simulated_farm.url, killed, OPTIONS))
    # Then all that is written of the search is the same
    for file in FILES:
        assert (killed / file).read_bytes() == (calm / file).read_bytes(), file
    # And history and tree say who stopped, and how the best did on the validation set
    lines = [[json.loads(text) for text in (f / "history.jsonl").read_text().splitlines()] for f in (calm, killed)]
    decisions = [
        [(line["population"], line["validation"], line["evaluations"]["computed"]) for line in one] for one in lines
    ]
    assert decisions[0] == decisions[1]
    stopped = [member["stopped"] for line in lines[0] for member in line["population"] if "stopped" in member]
    assert stopped and all(one["answered"] < one["of"] == 12 for one in stopped)
    nodes = json.loads((calm / "evolution_tree.json").read_text())["nodes"]
    assert sum("stopped" in node for node in nodes) == len(stopped)
    assert len({node["id"] for node in nodes}) == len(nodes)
    # And no record of a rung is left
    assert [key for key in driver.store.redis.scan_iter("*:plan:*") if b"rung" in key] == []
