"""What options must be to one another."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.settings import load_settings, make_run


@pytest.mark.parametrize("name", ["TOURNAMENT_SIZE", "TRUNCATION_TOP_K"])
def test_the_chosen_selection_needs_its_own_parameter_and_not_the_other_s(sound: Any, problems: Any, name: str) -> None:
    selection = {"TOURNAMENT_SIZE": "tournament", "TRUNCATION_TOP_K": "truncation"}
    other = next(one for one in selection if one != name)
    sound.leave_out(name)

    assert problems(f"SELECTION={selection[name]}") == (
        f"CONFIG_{name}: is not set, and SELECTION '{selection[name]}' needs it",
    )
    assert getattr(load_settings(sound.path, [f"SELECTION={selection[other]}"]), name.lower()) == -1


@pytest.mark.parametrize(("selection", "name"), [("tournament", "TOURNAMENT_SIZE"), ("truncation", "TRUNCATION_TOP_K")])
def test_parents_are_drawn_from_two_individuals_to_the_whole_population(
    sound: Any, problems: Any, selection: str, name: str
) -> None:
    chosen = f"SELECTION={selection}"

    assert problems(chosen, f"{name}=1") == (f"CONFIG_{name}: '1' is out of range (2 to 10000)",)
    assert problems(chosen, f"{name}=5") == (f"CONFIG_{name}: 5 is more than POPULATION_SIZE (4)",)
    for allowed in (2, 4):
        assert getattr(load_settings(sound.path, [chosen, f"{name}={allowed}"]), name.lower()) == allowed


def test_a_pool_of_parents_smaller_than_the_number_of_parents_is_enough(sound: Any) -> None:
    """They are drawn with replacement."""
    settings = load_settings(sound.path, ["SELECTION=truncation", "TRUNCATION_TOP_K=2", "ELITISM_SIZE=0"])

    assert settings.truncation_top_k < 2 * settings.population_size


def test_elites_leave_room_for_a_child(sound: Any, problems: Any) -> None:
    assert problems("ELITISM_SIZE=4") == (
        "CONFIG_ELITISM_SIZE: 4 leaves no room for children: it must be less than POPULATION_SIZE (4)",
    )
    assert load_settings(sound.path, ["ELITISM_SIZE=3"]).elitism_size == 3
    assert load_settings(sound.path, ["ELITISM_SIZE=0"]).elitism_size == 0


def test_two_weights_of_0_are_refused_because_every_fitness_would_be_0(sound: Any, problems: Any) -> None:
    assert problems("LAMBDA_SHORTNESS=0", "LAMBDA_CORRECTNESS=0.0") == (
        "CONFIG_LAMBDA_CORRECTNESS: is 0, and so is LAMBDA_SHORTNESS: every fitness would be 0",
    )
    assert load_settings(sound.path, ["LAMBDA_SHORTNESS=0"]).lambda_shortness == 0
    assert load_settings(sound.path, ["LAMBDA_CORRECTNESS=0"]).lambda_correctness == 0


def test_a_search_in_which_no_individual_could_differ_is_refused(sound: Any, problems: Any) -> None:
    [line] = problems("CXPB=1", "MUTPB=0")
    assert line.startswith("CONFIG_MUTPB: ")
    for allowed in (["CXPB=0"], ["OPTIMISER=cma", "CXPB=0", "MUTPB=0"]):
        assert load_settings(sound.path, allowed)


def test_two_columns_have_two_names(problems: Any) -> None:
    assert problems("ANSWER_COLUMN=question", "ID_COLUMN=", "CONTEXT_COLUMN=") == (
        "CONFIG_ANSWER_COLUMN: is 'question', and so is QUESTION_COLUMN",
    )


def test_a_server_of_others_is_not_restarted(problems: Any) -> None:
    (line,) = problems("SGLANG_URL=http://127.0.0.1:1", "SGLANG_LIFECYCLE=restart")

    assert line.startswith("CONFIG_SGLANG_LIFECYCLE: 'restart' cannot restart the running server")


def test_a_call_fits_the_tokens_a_minute(problems: Any) -> None:
    (line,) = problems("OPENAI_TOKENS_PER_MINUTE=1000")

    assert line.startswith(
        "CONFIG_OPENAI_TOKENS_PER_MINUTE: 1000 is not more than REFLECTOR_MAX_COMPLETION_TOKENS (2048)"
    )


def test_the_context_of_the_judge_has_room_for_a_prompt(sound: Any, problems: Any) -> None:
    assert problems("JUDGE_CONTEXT_TOKENS=512") == (
        "CONFIG_JUDGE_CONTEXT_TOKENS: 512 leaves no room for a prompt: it must be more than "
        "JUDGE_MAX_COMPLETION_TOKENS (512)",
    )
    assert load_settings(sound.path, ["JUDGE_CONTEXT_TOKENS=0"]).judge_context_tokens == 0


def test_the_judge_s_prompt_is_within_its_context_and_the_tokens_a_minute(sound: Any) -> None:
    settings = load_settings(sound.path, ["JUDGE_CONTEXT_TOKENS=8000", "OPENAI_TOKENS_PER_MINUTE=9000"])
    assert make_run(settings, "run").judge.prompt_limit == 8000 - 512
    settings = load_settings(sound.path, ["JUDGE_CONTEXT_TOKENS=0", "OPENAI_TOKENS_PER_MINUTE=9000"])
    assert make_run(settings, "run").judge.prompt_limit == 9000 - 512


def test_the_context_of_the_reflector_has_room_for_a_prompt(sound: Any, problems: Any) -> None:
    assert problems("REFLECTOR_CONTEXT_TOKENS=2048") == (
        "CONFIG_REFLECTOR_CONTEXT_TOKENS: 2048 leaves no room for a prompt: it must be more than "
        "REFLECTOR_MAX_COMPLETION_TOKENS (2048)",
    )
    assert load_settings(sound.path, ["REFLECTOR_CONTEXT_TOKENS=2049"]).reflector_context_tokens == 2049
    assert load_settings(sound.path, ["REFLECTOR_CONTEXT_TOKENS=0"]).reflector_context_tokens == 0  # no limit


def test_an_address_that_rules_do_not_use_is_refused(sound: Any, problems: Any) -> None:
    address = "OPENAI_BASE_URL=https://api.example/v1"
    assert problems(address) == (
        "CONFIG_OPENAI_BASE_URL: is not used when EMBEDDED_ENDPOINT is 'rules'; set 'openai', or leave this empty",
    )
    assert load_settings(sound.path, [address, "FARM=external"]).openai_base_url


def test_a_budget_needs_prices(sound: Any, problems: Any) -> None:
    budget = ["BUDGET_USD=5", "EMBEDDED_ENDPOINT=openai", "OPENAI_PRICE_PROMPT=1", "OPENAI_PRICE_CACHED=0"]
    assert problems(*budget) == (
        "CONFIG_BUDGET_USD: needs OPENAI_PRICE_COMPLETION: without a price the cost is unknown",
    )
    assert load_settings(sound.path, [*budget, "OPENAI_PRICE_COMPLETION=3"]).budget_usd == 5
    assert load_settings(sound.path, ["BUDGET_USD=5"]).budget_usd == 5  # rules cost nothing


def test_a_shortest_answer_above_the_longest_is_refused(sound: Any, problems: Any) -> None:
    wanted = "STEERED_MIN_NEW_TOKENS=600"
    assert problems(wanted) == ("CONFIG_STEERED_MIN_NEW_TOKENS: 600 is more than TARGET_MAX_NEW_TOKENS, 96",)
    assert (
        make_run(load_settings(sound.path, ["STEERED_MIN_NEW_TOKENS=12"]), "x").target.sampling.steered_min_new_tokens
        == 12
    )


def test_several_samples_of_a_greedy_answer_are_refused(sound: Any, problems: Any) -> None:
    assert problems("SAMPLES=2") == ("CONFIG_SAMPLES: 2 answers to a question need a TARGET_TEMPERATURE above 0",)
    settings = load_settings(sound.path, ["SAMPLES=2", "TARGET_TEMPERATURE=0.7"])
    assert make_run(settings, "here").samples == 2


def test_options_of_the_genetic_algorithm_are_not_compared_for_another_optimiser(sound: Any) -> None:
    settings = load_settings(sound.path, ["OPTIMISER=cma", "ELITISM_SIZE=4", "TOURNAMENT_SIZE=9"])

    assert settings.optimiser == "cma"
