"""What precedes a search: the cap, the prompts that stay, the arms with clusters and vectors of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from simulated_measurer import Reply, Respond, SimulatedMeasurer, evolve_settings

from orchestrator.evolve.arms import make_arms, measure_plain, sides_of
from orchestrator.evolve.systems import Arm, Book
from orchestrator.settings import SettingsError
from tasks.plan import Candidate
from tasks.records import ClusterFigures, JudgedAnswer, Sides

CLUSTERS = 10  # of six buckets by waste: ends of a turn first, and last what no answer used
FIGURES = ClusterFigures(eos=0, pinned=CLUSTERS - 1, log_odds=(0.0, 1.0, -2.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))


def prepare(respond: Respond, prompts: Mapping[str, str], caps: list[int] | None = None, **options: object) -> Book:
    """What is known before the search; `caps` is told those that were tried."""
    tried, made = [] if caps is None else caps, list[str]()

    def measurer(cap: int) -> SimulatedMeasurer:
        tried.append(cap)
        return SimulatedMeasurer(respond, training=60)

    def cluster(sides: Sides | None) -> tuple[str, ClusterFigures]:
        made.append(f"clustering {len(made) + 1}")
        return made[-1], FIGURES

    settings = evolve_settings(**options)
    plain, cap, asked = measure_plain(settings, prompts["plain"], measurer)
    return make_arms(settings, prompts, plain, cap, asked, cluster)


SHORT = {"one sentence": "In one sentence.", "one word": "In one word."}
PROMPTS = {"plain": "", "80 words": "Work step by step.", **SHORT, **{
    f"useless {number}": f"Useless {number}." for number in range(8)
}}  # fmt: skip


def by_prompt(candidate: Candidate, question: int) -> Reply:
    """Step by step is longer and better than plain, short ones are shorter and worse; useless ones are both worse."""
    known = {"": (40, 5), "Work step by step.": (60, 8), "In one sentence.": (12, 4), "In one word.": (2, 3)}
    tokens, right = known.get(candidate.system_prompt or "", (45, 3))
    return Reply(tokens, question * 7 % 10 < right)


def test_a_longer_and_better_prompt_is_an_arm_and_each_arm_has_clusters_and_vectors_of_its_own() -> None:
    book = prepare(by_prompt, PROMPTS, delta_bound=10)
    assert [(arm.name, arm.system_prompt, arm.clustering) for arm in book.arms] == [
        ("plain", "", "clustering 1"),
        ("80 words", "Work step by step.", "clustering 2"),
        ("one sentence", "In one sentence.", "clustering 3"),  # "one word" is shorter, and loses too much
    ]
    assert [one.name for one in book.of_kind("prompt") if one.training] == [*PROMPTS][1:]
    vectors = book.of_kind("vector")
    assert {(one.arm, one.system_prompt, one.clustering) for one in vectors} == {
        (arm.name, arm.system_prompt, arm.clustering) for arm in book.arms
    }
    assert all(one.training and one.ordering is None for one in vectors)
    # An arm's vectors have one bounded delta a cluster, and raise the end of a turn where their names say so
    found = {one.name.removeprefix("80 words: "): one.deltas for one in vectors if one.arm == "80 words"}
    assert found["end +10"] == (10.0, *(0.0,) * (CLUSTERS - 1))
    assert found["log-odds x1"][:4] == (0.0, -1.0, 2.0, -6.0)
    assert found["log-odds x2"][:4] == (0.0, -2.0, 4.0, -10.0)  # not -12
    assert found["log-odds x2, end +10"] == (10.0, *found["log-odds x2"][1:])


def answer(example: str, text: str, right: bool = True, whole: bool = True) -> JudgedAnswer:
    return JudgedAnswer(example, len(text.split()), right, text, "?", "", "", whole)


def test_the_sides_of_an_arm_are_its_answers_and_correct_shorter_ones_of_other_prompts() -> None:
    own = [answer("q1", "The answer to this is seven."), answer("q2", "The answer is nine.", right=False)]
    others = [
        answer("q1", "Seven."),
        answer("q1", "The answer to this question is seven, I think."),
        answer("q1", "It is", whole=False),
        answer("q2", "Ten.", right=False),
    ]
    texts = tuple(one.text for one in own)
    assert sides_of(own, others, ["7", "8"]) == Sides(texts, ("Seven.", "7", "8"))
    # The data's right answers are for want of others alone
    assert sides_of(own, [*others, answer("q2", "Eight.")], ["7", "8"]) == Sides(texts, ("Seven.", "Eight."))


def long_answers(caps: Sequence[int], longest: int, loops: bool = False) -> Respond:
    """One answer in eight would have so many tokens, the others have 30; the last of `caps` cuts them."""

    def respond(candidate: Candidate, question: int) -> Reply:
        tokens = longest if question % 8 == 0 else 30
        return Reply(min(tokens, caps[-1]), loop=loops and tokens > caps[-1])

    return respond


CAPS = [(95, False, [96]), (96, False, [96, 192]), (300, False, [96, 192, 384]), (900, True, [96])]


@pytest.mark.parametrize(("longest", "loops", "caps"), CAPS)
def test_the_cap_is_doubled_until_hardly_an_answer_of_the_plain_model_reaches_it(
    longest: int, loops: bool, caps: list[int]
) -> None:
    found: list[int] = []
    book = prepare(long_answers(found, longest, loops), {"plain": ""}, found, target_max_new_tokens=96)
    assert found == caps and book.cap == caps[-1]
    assert max(book.plain.on("training").tokens) == min(longest, caps[-1])


def test_a_model_whose_answers_have_no_end_is_refused_unless_all_count_as_whole() -> None:
    caps: list[int] = []
    with pytest.raises(SettingsError, match=r"CONFIG_TARGET_MAX_NEW_TOKENS: 8 of 60 answers .* cut at 768 tokens"):
        prepare(long_answers(caps, 10_000), {"plain": ""}, caps, target_max_new_tokens=96)
    every = prepare(long_answers(caps, 10_000), {"plain": ""}, caps, target_max_new_tokens=96, whole="n")
    assert every.cap == 96


def test_the_specification_s_search_has_one_arm_with_the_run_s_clusters_and_no_vectors() -> None:
    book = prepare(by_prompt, PROMPTS, whole="n")
    assert book.arms == (Arm("plain", "", "clustering 1"),)
    assert not book.of_kind("vector")
    assert all(one.training for one in book.systems) and len(book.systems) == len(PROMPTS)
