"""Stop texts and grammars of real SGLang say the same as those of the embedded server."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import pytest
from conftest import CLUSTERS, Server, misread_by_xgrammar

from tasks.gpu.target import Generated, GenerateRequest, TargetRefused
from tasks.guide.proposal import PROPOSAL_SCHEMA, GuideProposal, parse_proposal
from tasks.guide.verdict_lines import ThreeLines, parse_three_lines, three_lines_regex

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="session", autouse=True)  # before the servers start
def read_by_xgrammar(model: str) -> None:
    if misread_by_xgrammar(model):
        pytest.fail(
            f"{model}/tokenizer.json has a decoder with ByteFallback: xgrammar finds no token with a space in it"
        )


def request(server: Server, prompt: int = 0, **given: object) -> GenerateRequest:
    return server.request(prompt, None, **given)  # type: ignore[arg-type]


def test_a_stop_text_ends_the_answer_and_is_named(server: Server) -> None:
    # Given an answer of which a word in the middle is known
    [whole] = server.answers([request(server, new=48)])
    word = re.findall(r"\w+", whole.text)[4]
    # When it is a stop text, the answer is what came before it
    [ended] = server.answers([request(server, new=48, stop=("no such text", word))])
    assert (ended.finish, ended.stop_text) == ("stop", word)
    assert ended.text == whole.text.partition(word)[0]
    assert whole.output_ids[: ended.completion_tokens] == ended.output_ids


def test_sampled_answers_keep_the_three_lines(server: Server) -> None:
    keeps_the_three_lines(server.answers([three_lines(server, q) for q in range(32)]))


def test_they_keep_them_beside_answers_without_a_grammar(server: Server) -> None:
    plain = [request(server, q, new=32) for q in range(32)]
    keeps_the_three_lines(server.answers([*(three_lines(server, q) for q in range(32)), *plain])[:32])


def three_lines(server: Server, prompt: int) -> GenerateRequest:
    return request(server, prompt, new=160, temperature=1.0, seed=prompt, regex=three_lines_regex())


def keeps_the_three_lines(found: Sequence[Generated]) -> None:
    whole = [answer.text for answer in found if answer.finish == "stop"]
    assert [text for text in whole if not re.fullmatch(three_lines_regex(), text)] == []
    assert [text for text in whole if not isinstance(parse_three_lines(text), ThreeLines)] == []
    assert len(whole) > 16, [(answer.finish, answer.text[-80:]) for answer in found]


def test_a_proposal_under_its_schema_can_be_read(server: Server) -> None:
    schema = json.dumps(PROPOSAL_SCHEMA)
    asked = [request(server, q, new=2000, temperature=0.7, seed=q, json_schema=schema) for q in range(8)]
    found = server.answers(asked)
    whole = [answer.text for answer in found if answer.finish == "stop"]
    assert [text for text in whole if not isinstance(parse_proposal(text, "stop"), GuideProposal)] == []
    assert whole, [(answer.finish, answer.text[-200:]) for answer in found]


def test_steering_chooses_among_what_a_grammar_allows(server: Server) -> None:
    for wanted in (None, [0.0, -1000.0, *[0.0] * (CLUSTERS - 2)]):  # numbers are cluster 1
        [answer] = server.answers([server.request(0, wanted, new=16, regex="(7|seven)")])
        assert answer.text == "seven" if wanted else answer.text in ("7", "seven")


@pytest.mark.parametrize("given", [{"regex": "("}, {"json_schema": "{"}])
def test_a_bad_grammar_is_refused_and_the_server_lives(server: Server, given: Mapping[str, str]) -> None:
    with pytest.raises(TargetRefused, match="HTTP 400"):
        server.answers([request(server, **given)])
    assert server.answers([request(server, new=4)])


def test_with_deterministic_inference_a_seed_repeats_its_answer_under_a_grammar(servers: Mapping[str, Server]) -> None:
    server = servers["deterministic"]
    asked = [request(server, q, new=96, temperature=0.8, seed=q, regex=three_lines_regex()) for q in range(16)]
    first, again = server.answers(asked), server.answers(asked[::-1])[::-1]
    assert [a.output_ids for a in again] == [a.output_ids for a in first]
