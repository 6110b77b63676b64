"""Generated tickets: balanced, the same for the same seed, and nothing in a line but the summaries tells the label."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from orchestrator.guide.guidance_file import read_guidance
from orchestrator.guide.stage_a import read_tickets
from orchestrator.guide.tickets.files import write_tickets
from orchestrator.guide.tickets.generate import GeneratedTicket, TicketShape, generate_tickets
from orchestrator.guide.tickets.missions import PLANS
from orchestrator.guide.tickets.plan import MissionPlan, plan_named, with_rules

each_plan = pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.code)


def told(ticket: GeneratedTicket) -> str:
    return " ".join(ticket.line["per_image"].values())


@each_plan
@pytest.mark.parametrize("sentences", [1, 2])
def test_a_ticket_fails_exactly_where_it_shows_a_wrong_value(plan: MissionPlan, sentences: int) -> None:
    for ticket in generate_tickets(plan, 120, 1, shape=TicketShape(sentences=sentences)):
        shown = {rule.name for rule in plan.rules for text in rule.wrong if text in told(ticket)}
        assert shown == ({ticket.truth.broken_rule} if ticket.truth.label == "fail" else set())
        assert ticket.line["label"] == ticket.truth.label
        for rule in plan.rules:
            assert sum(text in told(ticket) for text in (*rule.right, *rule.wrong)) == 1


@each_plan
def test_labels_rules_and_distractors_are_balanced(plan: MissionPlan) -> None:
    truths = [ticket.truth for ticket in generate_tickets(plan, 48, 7)]
    assert Counter(truth.label for truth in truths) == {"pass": 24, "fail": 24}
    assert {count for rule, count in Counter(t.broken_rule for t in truths).items() if rule} == {8}
    distracted = Counter((truth.label, name) for truth in truths for name in truth.distractors)
    assert set(distracted.values()) == {4} and len(distracted) == 2 * len(plan.distractors)


@each_plan
def test_the_same_arguments_give_the_same_tickets_and_another_part_gives_others(plan: MissionPlan) -> None:
    assert generate_tickets(plan, 24, 3, noise=0.1, gaps=2) == generate_tickets(plan, 24, 3, noise=0.1, gaps=2)
    training, test = generate_tickets(plan, 24, 3), generate_tickets(plan, 24, 3, part="test")
    assert {t.truth.group_id for t in training}.isdisjoint(t.truth.group_id for t in test)
    assert [told(t) for t in training] != [told(t) for t in test]
    assert [told(t) for t in training] != [told(t) for t in generate_tickets(plan, 24, 4)]


def test_noise_turns_as_many_labels_of_each_kind() -> None:
    tickets = generate_tickets(PLANS[0], 40, 3, noise=0.1)
    turned = [ticket for ticket in tickets if ticket.truth.is_mislabelled]
    assert Counter(ticket.truth.label for ticket in turned) == {"pass": 2, "fail": 2}
    assert all((ticket.line["label"] != ticket.truth.label) == ticket.truth.is_mislabelled for ticket in tickets)


def test_gaps_come_on_top_and_are_blank_summaries(tmp_path: Path) -> None:
    plan = PLANS[2]
    tickets = generate_tickets(plan, 10, 3, gaps=3)
    gaps = [ticket for ticket in tickets if not ticket.line["stage_a_complete"]]
    assert (len(tickets), len(gaps)) == (13, 3)
    assert all(list(ticket.line["per_image"].values()).count("") == 2 for ticket in gaps)


def test_the_files_are_what_guide_reads(tmp_path: Path) -> None:
    training = [ticket for plan in PLANS for ticket in generate_tickets(plan, 10, 3, gaps=1)]
    test = [ticket for plan in PLANS for ticket in generate_tickets(plan, 4, 3, part="test")]
    paths = write_tickets(tmp_path, PLANS, training, test)
    assert [path.name for path in paths] == ["tickets.jsonl", "truth.jsonl", "guidance.json", "test.jsonl"]
    names = [plan.name for plan in PLANS]
    complete, excluded = read_tickets([str(tmp_path / "tickets.jsonl")], names)
    assert [(len(complete[name]), len(excluded[name])) for name in names] == [(10, 1)] * 4
    assert list(read_guidance(tmp_path / "guidance.json")) == names
    truths = [json.loads(line) for line in (tmp_path / "truth.jsonl").read_text().splitlines()]
    assert len(truths) == len(training) + len(test)
    # When they are made again without test tickets, then none of before are left
    write_tickets(tmp_path, PLANS, training)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["guidance.json", "tickets.jsonl", "truth.jsonl"]


@each_plan
def test_an_easy_shape_tells_of_a_feature_only_what_is_wrong(plan: MissionPlan) -> None:
    easy = TicketShape(images=2, sentences=1, mentioned=0.0, distracted=1.0)
    for ticket in generate_tickets(with_rules(plan, 2), 40, 1, shape=easy):
        shown = {rule.name for rule in plan.rules for text in (*rule.right, *rule.wrong) if text in told(ticket)}
        assert shown == ({ticket.truth.broken_rule} if ticket.truth.label == "fail" else set())
        assert len(ticket.line["per_image"]) == 2 and len(ticket.truth.distractors) == 1
        assert ticket.truth.broken_rule in (None, plan.rules[0].name, plan.rules[1].name)


@each_plan
def test_one_phrasing_tells_a_value_in_its_first_way_only(plan: MissionPlan) -> None:
    shape = TicketShape(phrasings=1)
    shown = "".join(told(ticket) for ticket in generate_tickets(plan, 60, 1, shape=shape))
    for rule in plan.rules:
        first, second = zip(rule.right, rule.wrong, strict=True)
        assert all(text in shown for text in first) and not any(text in shown for text in second)


def test_the_shares_of_a_shape_are_kept() -> None:
    plan = PLANS[0]
    shape = TicketShape(images=5, mentioned=0.5, distracted=0.25)
    tickets = generate_tickets(plan, 400, 1, shape=shape)
    rights = sum(text in told(ticket) for ticket in tickets for rule in plan.rules for text in rule.right)
    assert 450 < rights < 550  # half of the 1,000 features that are right
    assert Counter(t.truth.label for t in tickets if t.truth.distractors) == {"pass": 50, "fail": 50}


@pytest.mark.parametrize(("count", "noise"), [(3, 0.0), (4, 0.6), (-2, 0.0)])
def test_numbers_that_make_no_balance_are_refused(count: int, noise: float) -> None:
    with pytest.raises(ValueError, match="count is even"):
        generate_tickets(PLANS[0], count, 1, noise=noise)


def test_a_shape_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="1, 2 or 3 sentences"):
        TicketShape(sentences=4)
    with pytest.raises(ValueError, match="from 0 to 1"):
        TicketShape(mentioned=1.5)
    with pytest.raises(ValueError, match="1 or 2 ways"):
        TicketShape(phrasings=3)
    for images, sentences in ((2, 2), (8, 2)):
        with pytest.raises(ValueError, match=f"from 5 to 11 sentences, and not {images * sentences}"):
            generate_tickets(PLANS[0], 4, 1, shape=TicketShape(images, sentences))


def test_a_mission_is_found_by_its_name() -> None:
    assert plan_named(PLANS, "电源线检查").code == "DYX"
    with pytest.raises(ValueError, match="no mission is called 'x'; there are radio cabinet wiring, "):
        plan_named(PLANS, "x")
