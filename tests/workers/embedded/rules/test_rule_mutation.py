"""The reflector by rules: it reads its own steps in the scratchpad, and learns from them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tasks.openai.reflect import Mutation, Response, as_variant, mutation_messages
from workers.embedded.rules.reflector import (
    MAX_LINES,
    DeltaStep,
    Observation,
    mutate,
    read_step,
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


def reflect(deltas: dict[str, float], scratchpad: str, target: str, given: list[Response]) -> Mutation:
    reply = mutate(*mutation_messages(CLUSTERS, deltas, scratchpad, target, given))
    proposal = Mutation(**reply)
    assert proposal.fault(deltas[target]) == ""
    return proposal


ZERO = {str(cluster["id"]): 0.0 for cluster in CLUSTERS}


def test_a_question_that_was_put_before_gets_a_longer_step():
    messages = mutation_messages(CLUSTERS, ZERO, "", "2", responses(60))
    deltas = [mutate(*as_variant(messages, variant))["delta"] for variant in range(3)]
    assert deltas == [-1.0, -1.5, -2.0]


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
    last = read_step(proposal.scratchpad.split("\n")[-1])
    assert last is not None and last.new == proposal.delta
    assert reflect(deltas, scratchpad, target, responses(tokens, correct)) == proposal
