"""What the benchmark of ticket shapes makes of answers: verdicts, accuracies and the form by temperature."""

from __future__ import annotations

import pytest

from benchmarks.gpu.guide_prompts import experiences_of, messages_for, other_plan
from benchmarks.gpu.guide_shapes import SHAPES
from benchmarks.gpu.guide_tables import form_rows, sample_rows, verdict_rows
from benchmarks.gpu.guide_tickets import TEMPERATURES, TicketUnit, form_by_temperature, letters_and_answers, tickets_of
from benchmarks.gpu.guide_verdicts import first_verdict
from orchestrator.guide.tickets.missions import PLANS
from tasks.guide.prompting import rollout_messages

PASSED = "Verdict: pass\nReason: all is well\nConfidence: 0.9"
FAILED = "Verdict: 不通过\nReason: G1\nConfidence: 80%"


def record(stage: str, labels: str, conditions: dict[str, object], mission: int = 0) -> dict[str, object]:
    unit = {"stage": stage, "shape": "one", "prompt": "last", "mission": mission}
    return {"unit": unit, "found": {"labels": labels, "conditions": conditions}}


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_has_tickets_and_a_prompt_with_its_rules(shape: str) -> None:
    for mission, plan in enumerate(PLANS):
        tickets = tickets_of(TicketUnit("verdicts", shape, "plain", mission, (), 8, 1, 128))
        assert sorted(ticket.label for ticket in tickets) == ["fail"] * 4 + ["pass"] * 4
        planted = experiences_of("planted", plan, "tolerant")
        system, user = messages_for(plan, planted, tickets[0], "examples_last")
        places = [user.index(part) for part in (plan.focus, "image_1", planted["G0"], planted["G6"])]
        assert places == sorted(places) and "0.95" in system


def test_the_projects_prompt_is_the_projects_and_none_is_said_in_words() -> None:
    plan = PLANS[0]
    ticket = tickets_of(TicketUnit("verdicts", "full", "plain", 0, (), 2, 1, 128))[0]
    planted = experiences_of("planted", plan)
    assert messages_for(plan, planted, ticket, "plain") == rollout_messages(plan.name, plan.focus, planted, ticket)
    _, user = messages_for(plan, {}, ticket, "plain")
    assert user.startswith("## Experiences\nnone\n") and "[G0]" not in user


def test_another_missions_rules_are_as_many_in_the_same_language() -> None:
    for plan in PLANS:
        other, planted = experiences_of("other", plan, "quoted"), experiences_of("planted", plan, "quoted")
        assert len(other) == len(planted) and not set(other.values()) & set(planted.values()) - {plan.first}
        assert other_plan(plan).language == plan.language


@pytest.mark.parametrize(
    ("line", "verdict"), [("Verdict: pass", "pass"), ("verdict：不通过", "fail"), ("pass", None), ("Verdict: ok", None)]
)
def test_the_first_line_has_the_verdict(line: str, verdict: str | None) -> None:
    assert first_verdict(line) == verdict


def test_greedy_verdicts_are_pooled_over_missions_and_compared_with_none() -> None:
    records = [
        record("verdicts", "pf", {"none": {"verdicts": "pp"}, "planted:plain": {"verdicts": "pf"}}),
        record("verdicts", "fp", {"none": {"verdicts": "xp"}, "planted:plain": {"verdicts": "pp"}}, mission=2),
    ]
    none, planted = verdict_rows(records)
    assert none[3:] == ["none", "4", "50.0", "50.0", "50.0", "", "100.0", "50.0", "25.0"]
    assert planted[3:8] == ["planted:plain", "4", "75.0", "100.0", "50.0"]
    assert planted[8].startswith("+25.0 (") and planted[9:] == ["100.0", "50.0", "0.0"]


def test_samples_give_greedy_majority_and_pass_at_8() -> None:
    found = letters_and_answers([FAILED, *[PASSED] * 7, *[PASSED] * 4, *[FAILED] * 3, "no"], "samples", 8)
    assert found["verdicts"] == "fpppppppppppfffx" and found["answers"][-1] == "no"
    [row] = sample_rows([record("samples", "pf", {"none": found})])
    assert row[2:] == ["none", "2", "0.0", "50.0", "100.0", "93.8"]


def test_the_form_is_counted_by_temperature() -> None:
    texts = [PASSED, PASSED, PASSED, "Verdict: pass", "no", PASSED, PASSED, PASSED, PASSED, "no"]
    found = form_by_temperature(texts)
    assert [(found[str(t)]["answers"], found[str(t)]["valid"]) for t in TEMPERATURES] == [
        (2, 2), (2, 2), (2, 2), (2, 1), (2, 0)
    ]  # fmt: skip
    rows = list(form_rows([record("form", "", {"initial": found}), record("form", "", {"planted": found})]))
    assert [row[2:5] for row in rows] == [
        [str(t), "4", share] for t, share in zip(TEMPERATURES, ["100.0"] * 3 + ["50.0", "0.0"], strict=True)
    ]
    assert rows[4][6] == "1 lines, not 3 (4)"
