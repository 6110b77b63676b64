"""The rules: a reflector that learns, a merger, a judge, as functions of the prompt."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.judging import prompt
from tasks.judging.verdict import judge
from tasks.models import Judge
from tasks.openai.fitting import Response
from tasks.openai.merge import Parent, merge_messages
from tasks.openai.mutation import Proposal, check_proposal, mutation_messages
from tasks.openai.schema import mismatch
from tasks.openai.variant import as_variant
from workers.embedded.endpoint.rules import all_rules, merge, mutation, verdict
from workers.embedded.endpoint.rules.mutation import (
    MAX_LINES,
    DeltaStep,
    Observation,
    complete_steps,
    read_step,
    read_steps,
)

CLUSTERS = [
    {"id": 0, "description": "end of turn", "examples": ["<|im_end|>"], "count": 1},
    {"id": 1, "description": "digits and arithmetic", "examples": ["1", "2", "+"], "count": 20},
    {"id": 2, "description": "function words", "examples": [" the", " of", "And"], "count": 300},
    {"id": 3, "description": "animals", "examples": [" cat", " dog"], "count": 80},
    {"id": 4, "description": "colours", "examples": [" red", " blue"], "count": 60},
]


def responses(tokens: float, correct: int = 3, n: int = 4) -> list[Response]:
    text = "the answer of the page and the cat of the table"
    return [Response(f"q{i}", i < correct, "why", text, round(tokens)) for i in range(n)]


def reflect(deltas: dict[str, float], scratchpad: str, target: str, given: list[Response]) -> Proposal:
    reply = mutation.answer(*mutation_messages(CLUSTERS, deltas, scratchpad, target, given))
    proposal = check_proposal(reply, deltas[target])
    assert isinstance(proposal, Proposal), f"the rule made an invalid proposal: {proposal}"
    return proposal


ZERO = {str(cluster["id"]): 0.0 for cluster in CLUSTERS}


def test_the_end_of_turn_becomes_more_likely_and_more_so_for_long_answers():
    assert reflect(ZERO, "", "0", responses(60)).delta == 2.0
    assert reflect(ZERO, "", "0", responses(8)).delta == 1.0


def test_a_question_that_was_put_before_gets_a_longer_step():
    messages = mutation_messages(CLUSTERS, ZERO, "", "2", responses(60))
    deltas = [mutation.answer(*as_variant(messages, variant))["delta"] for variant in range(3)]
    assert deltas == [-1.0, -1.5, -2.0]


def test_numbers_become_a_little_more_likely():
    assert reflect(ZERO, "", "1", responses(60)).delta == 0.5
    assert reflect({**ZERO, "1": 1.5}, "", "1", responses(60)).delta == 1.25


def test_a_cluster_becomes_less_likely_by_its_share_of_the_long_answers():
    assert reflect(ZERO, "", "2", responses(60)).delta == -1.0
    assert reflect(ZERO, "", "4", responses(60)).delta == -0.25


def test_only_the_long_answers_count_for_the_share():
    short = [Response(f"s{i}", True, "", "red blue red blue red", 4) for i in range(3)]
    long = [Response(f"l{i}", True, "", "cat dog cat dog cat", 50) for i in range(4)]
    assert reflect(ZERO, "", "4", [*short, *long]).delta == -0.25
    assert reflect(ZERO, "", "3", [*short, *long]).delta == -1.0


def test_descriptions_without_examples_are_used_as_examples():
    described = [
        {"id": "0", "description": "end"},
        {"id": "1", "description": "the, of"},
        {"id": "2", "description": "x"},
    ]
    shares = mutation.cluster_shares(described, ["The end of the day"])
    assert shares == {"0": 0.2, "1": 0.6, "2": 0.0}


def test_a_step_that_helped_is_repeated():
    first = reflect(ZERO, "", "0", responses(60))
    second = reflect({**ZERO, "0": first.delta}, first.scratchpad, "0", responses(30))
    assert 1.0 <= second.delta - first.delta <= 2.0
    assert "then 30.0 tokens, 0.75 correct" in second.scratchpad


@pytest.mark.parametrize("target", ["0", "1", "2"])
def test_a_step_that_hurt_is_taken_back_by_half(target):
    first = reflect(ZERO, "", target, responses(60, correct=4))
    second = reflect({**ZERO, target: first.delta}, first.scratchpad, target, responses(59, correct=2))
    assert second.delta == pytest.approx(first.delta / 2)


def test_a_loss_caused_by_another_cluster_lowers_the_end_of_turn():
    past = DeltaStep("2", 0.0, -1.0, Observation(60, 1.0), Observation(50, 1.0)).line()
    assert reflect({**ZERO, "0": 3.0}, past, "0", responses(50, correct=2)).delta == 2.0


def test_an_outcome_after_a_crossover_is_not_credited_to_the_step():
    first = reflect(ZERO, "", "0", responses(60))
    later = reflect({**ZERO, "0": first.delta / 2}, first.scratchpad, "2", responses(10))
    assert "then unseen" in later.scratchpad and "10.0 tokens, 0.75 correct; then ?" in later.scratchpad


def test_steps_shorten_the_answers_and_return_when_they_become_wrong():
    # Given a model whose answers become shorter with cluster 0, and wrong when they end too early
    deltas, scratchpad = dict(ZERO), ""

    def answers() -> list[Response]:
        return responses(max(4, 80 - 10 * deltas["0"] + 5 * deltas["2"]), correct=4 if deltas["0"] < 5 else 0)

    start, seen = answers(), []
    for step in range(20):
        target = "0" if step % 2 == 0 else "2"
        proposal = reflect(deltas, scratchpad, target, answers())
        deltas[target], scratchpad = proposal.delta, proposal.scratchpad
        seen.append((answers()[0].tokens, sum(response.is_correct for response in answers())))
    # Then answers become shorter without loss, and the deltas return from where they are wrong
    assert min(tokens for tokens, correct in seen if correct == 4) <= 0.6 * start[0].tokens
    assert (0 in {correct for _, correct in seen}) and seen[-1][1] == 4
    assert len(scratchpad.split("\n")) <= MAX_LINES


@given(
    st.sampled_from(list(ZERO)),
    st.floats(-20, 20),
    st.floats(0, 300),
    st.integers(0, 4),
    st.lists(
        st.builds(
            DeltaStep,
            cluster=st.sampled_from(list(ZERO)),
            old=st.floats(-8, 8),
            new=st.floats(-8, 8),
            before=st.builds(Observation, st.floats(0, 300), st.floats(0, 1)),
            after=st.none() | st.builds(Observation, st.floats(0, 300), st.floats(0, 1)),
        ),
        max_size=40,
    ),
)
def test_every_proposal_is_valid_and_bounded_and_so_is_its_scratchpad(target, current, tokens, correct, past):
    deltas = {**ZERO, target: current}
    scratchpad = "\n".join(step.line() for step in past)
    proposal = reflect(deltas, scratchpad, target, responses(tokens, correct))
    assert abs(proposal.delta) <= 8 or abs(proposal.delta) < abs(current)
    assert len(proposal.scratchpad.split("\n")) <= MAX_LINES
    assert read_steps(proposal.scratchpad)[-1].new == proposal.delta
    assert reflect(deltas, scratchpad, target, responses(tokens, correct)) == proposal


def test_lines_of_steps_are_read_back_and_other_lines_are_kept():
    step = DeltaStep("12", -0.5, 1e-05, Observation(41.3, 0.75))
    assert read_step(step.line()) == step
    done = dataclasses.replace(step, after=Observation(30.0, 1.0))
    assert read_step(done.line()) == done
    assert read_step("cluster 12 was bad") is None
    assert complete_steps(f"a note\n{step.line()}", {"12": 1e-05}, Observation(30.0, 1.0)) == f"a note\n{done.line()}"


def joined(a: Parent, b: Parent) -> list[str]:
    reply = merge.answer(*merge_messages(a, b))
    return str(reply["scratchpad"]).split("\n")


def test_the_fitter_parents_lines_come_first_and_replace_the_others():
    a = Parent("shared\ncluster 0: up was bad\ncluster 3: down was good", 0.25)
    b = Parent("cluster 0: up was good\nshared", 0.75)
    assert joined(a, b) == ["cluster 0: up was good", "shared", "cluster 3: down was good"]
    assert joined(b, a) == joined(a, b)


def test_in_a_tie_the_first_parent_counts_as_the_fitter():
    assert joined(Parent("cluster 0: a", 0.5), Parent("cluster 0: b", 0.5)) == ["cluster 0: a"]
    assert joined(Parent("", 0.5), Parent("", 0.5)) == [""]
    assert joined(Parent("", 0.9), Parent("b", 0.5)) == ["b"]


def test_a_merged_scratchpad_keeps_the_limit_of_lines():
    a = Parent("\n".join(f"note {i}" for i in range(100)), 0.9)
    b = Parent("other", 0.5)
    assert joined(a, b) == [f"note {i}" for i in range(100 - MAX_LINES, 100)]


def judged(gold: str, said: str, question: str = "What is it?", tolerance: float = 0.15) -> verdict.RuleVerdict:
    return verdict.judge_by_rules(verdict.JudgeInput(question, gold, said, tolerance))


@pytest.mark.parametrize(
    ("gold", "said", "is_correct"),
    [
        ("$1577.00", "It was $1,577 in 2018.", True),
        ("$1577.00", "The year was 2018, on page 1577 of 2020... no: 900", False),
        ("$1577.00", "About 2,400.", False),
        ("$1577.00", "Some figures: $900, $1577, $2000, $4000.", False),
        ("$25", "It was 25%.", False),
        ("65.4%", "0.654", True),
        ("65.4%", "The margin is 65%.", True),
        ("65.4%", "The page does not provide the margin; 65.4% is usual.", False),
        ("-$12 million", "a loss of (12) million", True),
        ("-3.1%", "3.1%", False),
        ("0", "It was 0.", True),
        ("0", "It was 4.", False),
        ("1994", "Founded in 1994 by 12 people.", True),
        ("1994", "Founded in 1990, listed in 1994.", False),
        ("1994", "Founded by 12 people.", False),
        ("Yes, it grew by 4%.", "Yes.", True),
        ("Yes, it grew by 4%.", "No, it fell.", False),
        ("No. The ratio is stable.", "No, the ratio is stable", True),
        ("Yes, it grew by 4%.", "I cannot tell from the page.", False),
        ("Yes, it grew by 4%.", "Revenue did not grow by 4%.", False),
        ("The company sells bicycles and helmets.", "Bicycles and helmets, sold by the company.", True),
        ("The company sells bicycles and helmets.", "The company is old.", False),
        ("The company sells bicycles and helmets.", "", False),
        ("Consumer shrank by 0.9%", "The consumer segment shrank by 0.9%", True),
        ("Consumer sales in Norway shrank by 40 basis points", "Norway: consumer demand fell 0.4%", True),
        ("Consumer sales in Norway shrank by 40 basis points", "Norway: consumer demand fell 3%", False),
    ],
)
def test_the_judge(gold, said, is_correct):
    assert judged(gold, said).is_correct == is_correct


def test_the_question_gives_the_unit_of_the_gold_and_the_numbers_that_are_not_the_answer():
    in_millions = "What was the capital expenditure in 2018 (in USD millions)?"
    assert judged("$1577.00", "$1.577 billion", in_millions).is_correct
    assert not judged("$1577.00", "$1.577 billion").is_correct
    growth = "By how much did revenue grow from $100 million?"
    assert not judged("$100 million", "From $100 million it grew by $7 million.", growth).is_correct
    assert judged("$7 million", "From $100 million it grew by $7 million.", growth).is_correct
    assert judged("1994", "In 2001 it was noted: founded in 1994.", "When was it founded, as told in 2001?").is_correct


@pytest.mark.parametrize(
    "gold", ["$10 million", "The company sells bicycles and helmets in Norway.", "It employs 70 people in 9 towns."]
)
def test_a_longer_answer_does_not_get_a_better_verdict(gold):
    ramble = "Let me think about this question for a while. " * 12
    assert not judged(
        gold, f"It was $3 million. {ramble} $10 million, bicycles, helmets, company, sells, Norway."
    ).is_correct
    assert not judged(gold, f"{ramble} $4 million. It employs 70 people in 9 towns.").is_correct


def judge_message(gold: str, said: str, question: str = "How much?") -> str:
    return prompt.user_message(question, gold, said)


def test_the_verdict_has_its_keys_in_order_and_the_tolerance_of_the_prompt():
    message = judge_message("$100", "It was 110")
    reply = verdict.answer("Allow 15% tolerance.", message)
    assert list(reply) == prompt.SCHEMA["required"] and mismatch(reply, prompt.SCHEMA) is None
    assert (reply["normalized_gt"], reply["normalized_pred"], reply["relative_error_pct"]) == (100.0, 110.0, 10.0)
    assert reply["is_correct"] is True
    assert verdict.answer("Allow 5% tolerance.", message)["is_correct"] is False


def test_the_numbers_of_a_reply_are_those_that_were_compared():
    def numbers(gold: str, said: str, question: str = "How much?") -> list[float | None]:
        reply = verdict.answer(prompt.system_message(0.01, True), judge_message(gold, said, question))
        return [reply[name] for name in ("normalized_gt", "normalized_pred", "relative_error_pct")]

    assert numbers("65.4%", "It was 0.654.") == [65.4, pytest.approx(65.4), pytest.approx(0.0)]
    assert numbers("$1577.00", "$1.5 billion", "Capex (in USD millions)?") == [1577.0, 1500.0, pytest.approx(4.8827)]
    assert numbers("0", "It was 4.") == [0.0, 4.0, None]
    # What was not compared is not reported: stage 3 of the judge would take it for an agreement.
    assert numbers("$25", "It was 25%.") == [25.0, None, None]
    assert numbers("65.4%", "The page does not provide the margin; 65.4% is usual.") == [65.4, None, None]
    assert numbers("It sells bicycles.", "It sells 3 bicycles.") == [None, None, None]
    assert numbers("1", "9" * 400) == [1.0, None, None]


@pytest.mark.parametrize(
    ("gold", "said"), [("$25", "25%"), ("$12 million", "$12"), ("$12 million", "10, 12, 14"), ("5", "")]
)
def test_the_arithmetic_of_stage_three_changes_no_verdict_of_the_rules(gold, said):
    settings = Judge("rules", 0.01, True, 0.0, 1.0, 512, 42, 1)
    whole = judge("How much?", gold, said, settings, lambda system, user, name, schema: verdict.answer(system, user))
    assert not whole.is_correct and not judged(gold, said, "How much?", 0.01).is_correct


NUMBER = st.from_regex(r"(about )?-?\$?[0-9]{1,5}(\.[0-9]{1,2})?( ?%| million| billion)?", fullmatch=True)


@given(st.text() | NUMBER, st.text() | NUMBER)
def test_any_gold_and_any_answer_get_a_verdict_that_fits_the_schema(gold, said):
    assert mismatch(verdict.answer("", judge_message(gold, said)), prompt.SCHEMA) is None


def test_each_module_of_rules_answers_a_schema():
    assert set(all_rules()) >= {"mutation", "merge", "verdict"}


@pytest.mark.parametrize("rule", [mutation.answer, merge.answer, verdict.answer])
def test_a_prompt_that_is_not_the_rules_own_is_refused(rule):
    with pytest.raises(ValueError):
        rule("system", "Tell me a story.")
