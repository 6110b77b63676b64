"""What the records of a plan say of each system that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

from simulated_run import RUN

from orchestrator.runs.measuring import Measurer
from tasks.models import Answer, Example, Score, Verdict
from tasks.plan import Candidate, Outcome, Plan
from tasks.store.store import Store

EXAMPLES = {"training": [Example("a", "", "?", "!"), Example("b", "", "?", "!")]}


class TwoSamples:
    """Records two samples of each question, of 1, 2, 3 ... tokens, of which every second one is right."""

    def __init__(self, store: Store) -> None:
        self.dispatcher = SimpleNamespace(store=store, run_id=RUN.id)

    def __call__(self, plan: Plan) -> Sequence[Outcome]:
        store = self.dispatcher.store
        store.put_plan(RUN.id, plan)
        answers: list[dict[str, Any]] = []
        verdicts: list[dict[str, Any]] = []
        for number in range(4):
            answer, verdict = (
                Answer("a", f"text {number}", number + 1, "stop"),
                Verdict(number % 2 == 0, 1, 1, "text", ""),
            )
            store.put_shared(RUN.id, f"answer:{number}", asdict(answer))
            store.put_shared(RUN.id, f"verdict:{number}", asdict(verdict))
            answers.append({"key": f"answer:{number}", "tokens": number + 1, "finish": "stop"})
            verdicts.append({"key": f"verdict:{number}", "is_correct": number % 2 == 0})
        store.put_stage(RUN.id, plan.name, "0:pre:answer", {"answers": answers, "generated": 4}, 1)
        store.put_stage(RUN.id, plan.name, "0:pre:judge", {"verdicts": verdicts, "judged": 4}, 1)
        return [Outcome(0, "", Score(0.5, 0.5, 0.5, 2.5), None, "", None, {})]


def test_of_several_samples_the_first_one_is_compared_and_all_of_them_are_the_baseline(store: Store) -> None:
    store.put_run(RUN)
    measurer = Measurer(TwoSamples(store), EXAMPLES)  # type: ignore[arg-type]
    [first] = measurer.answers("reference", 0, [Candidate(0, ())])
    assert [(a.example, a.tokens, a.is_correct) for a in first] == [("a", 1, True), ("b", 3, True)]
    [every] = measurer.answers("reference", 0, [Candidate(0, ())], every_sample=True)
    assert [(a.example, a.tokens, a.is_correct) for a in every] == [
        ("a", 1, True), ("a", 2, False), ("b", 3, True), ("b", 4, False),
    ]  # fmt: skip
