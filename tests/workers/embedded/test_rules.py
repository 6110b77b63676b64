"""The rules: each answers its schema's prompts with a valid reply, learns from what they show, and refuses others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tasks.collect.collection import Compression, compression_messages
from tasks.common.validation import check_value
from tasks.guide.choose import SelectionRule, judge
from tasks.guide.experiences import apply_operations
from tasks.guide.prompts import REFLECTION_PLACES, Template, proposal_messages
from tasks.guide.replies import parse_proposal
from tasks.guide.ticket import Ticket, Verdict, read_candidate
from tasks.judging import verdict as prompt
from tasks.openai.prompts import as_variant, mutation_messages, rewrite_messages
from tasks.openai.reflect import Mutation, Rewrite
from tasks.records import JudgedAnswer
from workers.embedded.rules import RULES, verdict
from workers.embedded.rules.reflector import (
    MAX_LINES,
    DeltaStep,
    Observation,
    mutate,
    read_step,
    rewrite,
)

CLUSTERS = [
    {"id": 0, "description": "end of turn", "examples": ["<|im_end|>"], "count": 1},
    {"id": 1, "description": "digits and arithmetic", "examples": ["1", "2", "+"], "count": 20},
    {"id": 2, "description": "function words", "examples": [" the", " of", "And"], "count": 300},
    {"id": 3, "description": "animals", "examples": [" cat", " dog"], "count": 80},
    {"id": 4, "description": "colours", "examples": [" red", " blue"], "count": 60},
]


def responses(tokens: float, correct: int = 3, n: int = 4) -> list[JudgedAnswer]:
    text = "the answer of the page and the cat of the table"
    return [JudgedAnswer(f"q{i}", round(tokens), i < correct, text, f"q{i}", "", "why") for i in range(n)]


def reflect(deltas: dict[str, float], scratchpad: str, target: str, given: list[JudgedAnswer]) -> Mutation:
    reply = mutate(*mutation_messages(CLUSTERS, deltas, scratchpad, target, given))
    Mutation.of(deltas[target])(**reply)
    return Mutation(**reply)


ZERO = {str(cluster["id"]): 0.0 for cluster in CLUSTERS}


def test_a_question_that_was_put_before_gets_a_longer_step():
    messages = mutation_messages(CLUSTERS, ZERO, "", "2", responses(60))
    deltas = [mutate(*as_variant(messages, variant))["delta"] for variant in range(3)]
    assert deltas == [-1.0, -1.5, -2.0]


def test_steps_shorten_the_answers_and_return_when_they_become_wrong():
    # Given a model whose answers become shorter with cluster 0, and wrong when they end too early
    deltas, scratchpad = dict(ZERO), ""

    def answers() -> list[JudgedAnswer]:
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
    last = read_step(proposal.scratchpad.split("\n")[-1])
    assert last is not None and last.new == proposal.delta
    assert reflect(deltas, scratchpad, target, responses(tokens, correct)) == proposal


IDS = ("0", "1", "2")
START = dict.fromkeys(IDS, 0.0)


def asked(deltas: dict[str, float], summary: str, given: list[JudgedAnswer]) -> tuple[Rewrite, str]:
    """A proposal for the whole vector, and the summary after it."""
    reply: Any = rewrite(*rewrite_messages(CLUSTERS[:3], deltas, summary, given))
    found = check_value(Rewrite.of(IDS), reply)
    return found, "\n".join(filter(None, [summary, found.summary]))


def values(found: Rewrite) -> tuple[float, ...]:
    return tuple(found.deltas.model_dump().values())


def test_a_step_of_all_clusters_that_helped_is_repeated_and_one_that_hurt_is_taken_back_by_half() -> None:
    first, summary = asked(START, "", responses(60, 4))
    assert values(first) == (1.0, 0.25, -0.5)
    assert summary == '60.0 tokens, 1 correct with {"0": 0.0, "1": 0.0, "2": 0.0}'
    better, _ = asked(first.deltas.model_dump(), summary, responses(40, 4))
    worse, _ = asked(first.deltas.model_dump(), summary, responses(40, 1))
    assert (values(better), values(worse)) == ((2.0, 0.5, -1.0), (0.5, 0.125, -0.25))


def judged(gold: str, said: str, question: str = "What is it?", tolerance: float = 0.15) -> dict[str, Any]:
    return verdict.judge_by_rules(verdict.JudgeInput(question, gold, said, tolerance))


@pytest.mark.parametrize(
    ("gold", "said", "is_correct"),
    [
        ("$1577.00", "It was $1,577 in 2018.", True),
        ("$1577.00", "The year was 2018, on page 1577 of 2020... no: 900", False),
        ("$1577.00", "Some figures: $900, $1577, $2000, $4000.", False),
        ("$25", "It was 25%.", False),
        ("65.4%", "0.654", True),
        ("65.4%", "The page does not provide the margin; 65.4% is usual.", False),
        ("-$12 million", "a loss of (12) million", True),
        ("-3.1%", "3.1%", False),
        ("0", "It was 0.", True),
        ("1994", "Founded in 1994 by 12 people.", True),
        ("1994", "Founded in 1990, listed in 1994.", False),
        ("Yes, it grew by 4%.", "Yes.", True),
        ("Yes, it grew by 4%.", "I cannot tell from the page.", False),
        ("Yes, it grew by 4%.", "Revenue did not grow by 4%.", False),
        ("The company sells bicycles and helmets.", "Bicycles and helmets, sold by the company.", True),
        ("The company sells bicycles and helmets.", "The company is old.", False),
        ("The company sells bicycles and helmets.", "", False),
        ("Consumer sales in Norway shrank by 40 basis points", "Norway: consumer demand fell 0.4%", True),
        ("Consumer sales in Norway shrank by 40 basis points", "Norway: consumer demand fell 3%", False),
    ],
)
def test_the_judge(gold, said, is_correct):
    assert judged(gold, said)["is_correct"] == is_correct


def judge_message(gold: str, said: str, question: str = "How much?") -> str:
    return prompt.user_message(question, gold, said)


def test_the_verdict_has_its_keys_in_order_and_the_tolerance_of_the_prompt():
    message = judge_message("$100", "It was 110")
    reply = verdict.answer("Allow 15% tolerance.", message)
    assert list(reply) == list(prompt.JudgeReply.model_fields) and check_value(prompt.JudgeReply, reply)
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


NUMBER = st.from_regex(r"(about )?-?\$?[0-9]{1,5}(\.[0-9]{1,2})?( ?%| million| billion)?", fullmatch=True)


@given(st.text() | NUMBER, st.text() | NUMBER)
def test_any_gold_and_any_answer_get_a_verdict_that_fits_the_schema(gold, said):
    assert check_value(prompt.JudgeReply, verdict.answer("", judge_message(gold, said)))


CONFIG = Path(__file__).parents[3] / "configs" / "collect.yaml"
COMPRESSION = yaml.safe_load(CONFIG.read_text())["reflector"]["compress_prompt_template"]


def compress(question: str, said: str) -> str:
    messages = compression_messages(COMPRESSION, question, said)
    found: Compression = check_value(Compression, RULES["compression"](*messages))
    return found.rewritten_answer


@pytest.mark.parametrize(
    ("question", "said", "short"),
    [
        (
            "What were the net sales in fiscal 2023?",
            "The company makes tools. Based on the provided context, net sales in fiscal 2023 were $412 million. "
            "This was more than before.",
            "Net sales in fiscal 2023 were $412 million.",
        ),
        ("Did the margin rise?", "The margin was 3% before. Yes, it rose to 5%. It helped.", "Yes, it rose to 5%."),
        ("Is it profitable?", "It made money. It grew.", "It made money."),
        ("Who leads it?", "It is large. Ann is who leads it.", "Ann is who leads it."),
        ("What is it?", " \n ", ""),
    ],
)  # fmt: skip
def test_the_sentence_that_claims_something_is_kept(question: str, said: str, short: str) -> None:
    assert compress(question, said) == short


TEMPLATE = Template.read(Path(__file__).parents[3] / "configs" / "guide" / "reflection.txt", REFLECTION_PLACES)
FIRST = {"G0": "Read every summary."}


def ticket(number: int, label: Verdict, text: str) -> Ticket:
    return Ticket(f"t-{number}", "wiring", label, {"image_1": text, "image_2": "The lamp is lit."})


def propose(
    bundle: Sequence[Ticket], contrast: Sequence[Ticket] = (), experiences: dict[str, str] = FIRST
) -> dict[str, Any]:
    [candidate] = [read_candidate(0, 0, 1, "Verdict: pass\nReason: r\nConfidence: 0.5", 9, "stop")]
    groups = [judge(one, (candidate,), SelectionRule("confidence", ())) for one in bundle]
    messages = proposal_messages(TEMPLATE, "Whether wires are right.", experiences, groups, {}, contrast, 3)
    reply = RULES["proposal"](*messages)
    parse_proposal(json.dumps(reply), "stop")
    return reply


FAILING = [ticket(n, "fail", text) for n, text in enumerate(["A black wire is there.", "The wire is black."])]
PASSING = [ticket(n + 2, "pass", text) for n, text in enumerate(["A green wire.", "The wire was grey.", "White wire."])]


def test_words_that_only_failing_tickets_have_become_a_fault() -> None:
    reply = propose(FAILING, PASSING)
    [operation] = reply["operations"]
    assert operation["text"] == 'Fail the ticket when a summary says "black wire".'
    assert operation["evidence"] == ["第1组", "第2组"] == reply["evidence_group_ids"]
    assert (
        operation["rationale"] == "The words stand in 0 of 3 tickets with label pass, 2 of 2 tickets with label fail."
    )
    # And the edit is a valid one.
    read = parse_proposal(json.dumps(reply), "stop")
    applied = apply_operations(FIRST, 0, read.operations, max_operations=3, cap_left=9, bundle=["t-0", "t-1"],
                               tickets={one.group_id: one.per_image.values() for one in FAILING})  # fmt: skip
    assert applied.experiences == {**FIRST, "G1": operation["text"]}


@pytest.mark.parametrize("schema", RULES)
def test_a_prompt_that_is_not_the_rules_own_is_refused(schema: str) -> None:
    with pytest.raises(ValueError):
        RULES[schema]("system", "Tell me a story.")
