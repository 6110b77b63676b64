"""The rules: each answers its schema's prompts with a valid reply, learns from what they show, and refuses others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tasks.collect.collection import Compression, compression_messages
from tasks.common.validation import check_value
from tasks.guide.choose import SelectionRule, judge
from tasks.guide.prompts import REFLECTION_PLACES, Template, proposal_messages
from tasks.guide.replies import parse_proposal
from tasks.guide.ticket import Ticket, Verdict, read_candidate
from tasks.judging import verdict as prompt
from tasks.openai.prompts import mutation_messages, rewrite_messages
from tasks.openai.reflect import Mutation, Rewrite
from tasks.records import JudgedAnswer
from workers.embedded.rules import RULES
from workers.embedded.rules.verdict import answer

CONFIGS = Path(__file__).parents[3] / "configs"
CLUSTERS = [
    {"id": 0, "description": "end of turn", "examples": ["<|im_end|>"], "count": 1},
    {"id": 1, "description": "digits and arithmetic", "examples": ["1", "2", "+"], "count": 20},
    {"id": 2, "description": "function words", "examples": [" the", " of", "And"], "count": 300},
]
ZERO = {"0": 0.0, "1": 0.0, "2": 0.0}


def responses(tokens: float, correct: int = 4, n: int = 4) -> list[JudgedAnswer]:
    text = "the answer of the page and the cat of the table"
    return [JudgedAnswer(f"q{i}", round(tokens), i < correct, text, f"q{i}", "", "why") for i in range(n)]


def reflect(deltas: dict[str, float], scratchpad: str, target: str, given: list[JudgedAnswer]) -> Mutation:
    reply = RULES["mutation"](*mutation_messages(CLUSTERS, deltas, scratchpad, target, given))
    found: Mutation = check_value(Mutation.of(deltas[target]), reply)
    return found


def test_steps_shorten_the_answers_and_return_when_they_become_wrong() -> None:
    # Given a model whose answers become shorter with cluster 0, and wrong when they end too early
    deltas, scratchpad = dict(ZERO), ""

    def answers() -> list[JudgedAnswer]:
        return responses(max(4, 80 - 10 * deltas["0"] + 5 * deltas["2"]), correct=4 if deltas["0"] < 5 else 0)

    start, seen = answers(), []
    for step in range(20):
        target = "0" if step % 2 == 0 else "2"
        proposal = reflect(deltas, scratchpad, target, answers())
        assert abs(proposal.delta) <= 8
        deltas[target], scratchpad = proposal.delta, proposal.scratchpad
        seen.append((answers()[0].tokens, sum(response.is_correct for response in answers())))
    # Then answers become shorter without loss, and the deltas return from where they are wrong
    assert min(tokens for tokens, correct in seen if correct == 4) <= 0.6 * start[0].tokens
    assert (0 in {correct for _, correct in seen}) and seen[-1][1] == 4


def asked(deltas: dict[str, float], summary: str, given: list[JudgedAnswer]) -> Rewrite:
    """A proposal for the whole vector."""
    found: Rewrite = check_value(
        Rewrite.of(tuple(ZERO)), RULES["rewrite"](*rewrite_messages(CLUSTERS, deltas, summary, given))
    )
    return found


def values(found: Rewrite) -> tuple[float, ...]:
    return tuple(found.deltas.model_dump().values())


def test_a_step_of_all_clusters_that_helped_is_repeated_and_one_that_hurt_is_taken_back_by_half() -> None:
    first = asked(ZERO, "", responses(60))
    assert values(first) == (1.0, 0.25, -0.5)
    better = asked(first.deltas.model_dump(), first.summary, responses(40))
    worse = asked(first.deltas.model_dump(), first.summary, responses(40, 1))
    assert (values(better), values(worse)) == ((2.0, 0.5, -1.0), (0.5, 0.125, -0.25))


def verdict(gold: str, said: str, tolerance: float = 0.15, question: str = "How much?") -> dict[str, Any]:
    reply = answer(prompt.system_message(tolerance, True), prompt.user_message(question, gold, said))
    assert check_value(prompt.JudgeReply, reply)
    return reply


def test_the_verdict_has_the_tolerance_of_the_prompt_and_the_numbers_that_were_compared() -> None:
    assert [verdict("$100", "It was 110", tolerance)["is_correct"] for tolerance in (0.15, 0.05)] == [True, False]

    def numbers(gold: str, said: str, question: str = "How much?") -> list[float | None]:
        reply = verdict(gold, said, 0.01, question)
        return [reply[name] for name in ("normalized_gt", "normalized_pred", "relative_error_pct")]

    assert numbers("65.4%", "It was 0.654.") == [65.4, pytest.approx(65.4), pytest.approx(0.0)]
    assert numbers("$1577.00", "$1.5 billion", "Capex (in USD millions)?") == [1577.0, 1500.0, pytest.approx(4.8827)]
    assert numbers("0", "It was 4.") == [0.0, 4.0, None]
    # What was not compared is not reported: stage 3 of the judge would take it for an agreement.
    assert numbers("$25", "It was 25%.") == [25.0, None, None]
    assert numbers("65.4%", "The page does not provide the margin; 65.4% is usual.") == [65.4, None, None]
    assert numbers("1", "9" * 400) == [1.0, None, None]


NUMBER = st.from_regex(r"(about )?-?\$?[0-9]{1,5}(\.[0-9]{1,2})?( ?%| million| billion)?", fullmatch=True)


@given(st.text() | NUMBER, st.text() | NUMBER)
def test_any_gold_and_any_answer_get_a_verdict_that_fits_the_schema(gold, said):
    verdict(gold, said)


@pytest.mark.parametrize(
    ("question", "said", "short"),
    [
        ("What were the net sales in fiscal 2023?",
         "The company makes tools. Based on the provided context, net sales in fiscal 2023 were $412 million. "
         "This was more than before.", "Net sales in fiscal 2023 were $412 million."),
        ("Did the margin rise?", "The margin was 3% before. Yes, it rose to 5%. It helped.", "Yes, it rose to 5%."),
        ("Who leads it?", "It is large. Ann is who leads it.", "Ann is who leads it."),
        ("What is it?", " \n ", ""),
    ],
)  # fmt: skip
def test_the_sentence_that_claims_something_is_kept(question: str, said: str, short: str) -> None:
    template = yaml.safe_load((CONFIGS / "collect.yaml").read_text())["reflector"]["compress_prompt_template"]
    reply = RULES["compression"](*compression_messages(template, question, said))
    assert check_value(Compression, reply).rewritten_answer == short


def ticket(number: int, label: Verdict, text: str) -> Ticket:
    return Ticket(f"t-{number}", "wiring", label, {"image_1": text, "image_2": "The lamp is lit."})


def test_words_that_only_failing_tickets_have_become_a_fault() -> None:
    template = Template.read(CONFIGS / "guide" / "reflection.txt", REFLECTION_PLACES)
    failing = [ticket(n, "fail", text) for n, text in enumerate(["A black wire is there.", "The wire is black."])]
    passing = [ticket(n, "pass", text) for n, text in enumerate(["A green wire.", "The wire was grey."], 2)]
    [candidate] = [read_candidate(0, 0, 1, "Verdict: pass\nReason: r\nConfidence: 0.5", 9, "stop")]
    groups = [judge(one, (candidate,), SelectionRule("confidence", ())) for one in failing]
    known = {"G0": "Read every summary."}
    reply = RULES["proposal"](*proposal_messages(template, "Whether wires are right.", known, groups, {}, passing, 3))
    parse_proposal(json.dumps(reply), "stop")
    [operation] = reply["operations"]
    assert operation["text"] == 'Fail the ticket when a summary says "black wire".'
    assert operation["evidence"] == ["第1组", "第2组"] == reply["evidence_group_ids"]


@pytest.mark.parametrize("schema", RULES)
def test_a_prompt_that_is_not_the_rules_own_is_refused(schema: str) -> None:
    with pytest.raises(ValueError):
        RULES[schema]("system", "Tell me a story.")
