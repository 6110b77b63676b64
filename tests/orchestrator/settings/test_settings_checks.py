"""What options must be to one another, and to the files that they name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.settings import cluster_layout, load_settings, make_run, read_deltas
from tasks.escape import quote
from tasks.template import fill

ZEROS = {str(cluster): 0.0 for cluster in range(12)}


# selection


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


@pytest.mark.parametrize("name", ["LAMBDA_SHORTNESS", "LAMBDA_CORRECTNESS"])
@pytest.mark.parametrize("weight", ["-0.1", "1.01"])
def test_weights_lie_between_0_and_1(problems: Any, name: str, weight: str) -> None:
    assert problems(f"{name}={weight}") == (f"CONFIG_{name}: '{weight}' is out of range (0 to 1)",)


def test_two_weights_of_0_are_refused_because_every_fitness_would_be_0(sound: Any, problems: Any) -> None:
    assert problems("LAMBDA_SHORTNESS=0", "LAMBDA_CORRECTNESS=0.0") == (
        "CONFIG_LAMBDA_CORRECTNESS: is 0, and so is LAMBDA_SHORTNESS: every fitness would be 0",
    )
    assert load_settings(sound.path, ["LAMBDA_SHORTNESS=0"]).lambda_shortness == 0
    assert load_settings(sound.path, ["LAMBDA_CORRECTNESS=0"]).lambda_correctness == 0


# deltas


@pytest.mark.parametrize(
    ("deltas", "told"),
    [
        ({key: 0.0 for key in ZEROS if key != "11"}, "lacks '11' (the clusters are '0' to '11', KMEANS_CLUSTERS + 1)"),
        (ZEROS | {"12": 0.0}, "has the unknown '12' (the clusters are '0' to '11', KMEANS_CLUSTERS + 1)"),
        (
            {("01" if key == "1" else key): 0.0 for key in ZEROS},
            "lacks '1' and has the unknown '01' (the clusters are '0' to '11', KMEANS_CLUSTERS + 1)",
        ),
        ({}, "lacks '0', '1', '2', '3', '4', ... (the clusters are '0' to '11', KMEANS_CLUSTERS + 1)"),
        (json.dumps(ZEROS)[:-1] + ', "3": 1}', "repeats '3' (the clusters are '0' to '11', KMEANS_CLUSTERS + 1)"),
        (ZEROS | {"3": "0.5"}, "has '0.5' for cluster 3, which is not a finite number"),
        (ZEROS | {"3": None}, "has 'None' for cluster 3, which is not a finite number"),
        (ZEROS | {"3": True}, "has 'True' for cluster 3, which is not a finite number"),
        (ZEROS | {"3": float("nan")}, "has 'nan' for cluster 3, which is not a finite number"),
        (ZEROS | {"3": float("-inf")}, "has '-inf' for cluster 3, which is not a finite number"),
        (json.dumps(ZEROS).replace('"3": 0.0', '"3": 1' + "0" * 400), "for cluster 3, which is not a finite number"),
        ([0.0] * 12, "is not a JSON object of cluster ids and numbers"),
        ("{", "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
    ],
)
def test_deltas_are_one_finite_number_for_each_cluster(sound: Any, problems: Any, deltas: object, told: str) -> None:
    sound.write_deltas(deltas)

    (line,) = problems()
    assert line.startswith("CONFIG_INITIAL_DELTAS_PATH: ") and told in line


def test_deltas_follow_the_number_of_clusters(sound: Any, problems: Any) -> None:
    assert "lacks '12'" in problems("KMEANS_CLUSTERS=11")[0]

    sound.write_deltas({str(cluster): cluster for cluster in (4, 3, 2, 1, 0)})

    assert load_settings(sound.path, ["KMEANS_CLUSTERS=3"]).kmeans_clusters == 3
    deltas = read_deltas(sound.deltas, cluster_layout("meaning", 3, 10))
    assert list(deltas.items()) == [("0", 0.0), ("1", 1.0), ("2", 2.0), ("3", 3.0), ("4", 4.0)]


# files


@pytest.mark.parametrize("name", ["DATA_PATH", "INITIAL_DELTAS_PATH", "CLUSTER_DESCRIPTIONS_PATH"])
def test_a_file_must_be_there(sound: Any, problems: Any, name: str) -> None:
    missing = sound.folder / "missing"

    assert problems(f"{name}={missing}") == (f"CONFIG_{name}: {str(missing)!r} does not exist",)
    told = "a folder without dataset_dict.json" if name == "DATA_PATH" else "is not a file"
    (line,) = problems(f"{name}={sound.folder}")
    assert line.startswith(f"CONFIG_{name}: ") and str(sound.folder) in line and told in line


def test_relative_paths_start_at_the_working_directory(sound: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (sound.folder / "elsewhere").mkdir()
    monkeypatch.chdir(sound.folder / "elsewhere")

    settings = load_settings(sound.path, ["DATA_PATH=../questions.jsonl"])

    assert settings.data_path == Path("../questions.jsonl")


@pytest.mark.parametrize("name", ["TARGET_MODEL", "EMBEDDER_MODEL"])
def test_a_model_in_a_folder_must_be_there(sound: Any, problems: Any, name: str) -> None:
    assert problems(f"{name}=./no/such/model") == (f"CONFIG_{name}: './no/such/model' is not a folder",)
    assert load_settings(sound.path, [f"{name}={sound.folder}"])


# questions


@pytest.mark.parametrize("name", ["TRAINING_INDICES", "VALIDATION_INDICES"])
@pytest.mark.parametrize(
    ("indices", "told"),
    [
        ("1;2", "is neither an index nor a range"),
        ("1,,2", "is neither an index nor a range"),
        ("-3", "is neither an index nor a range"),
        ("All", "is neither an index nor a range"),
        ("9-2", "runs backwards"),
        ("1-5,3", "names 3 twice"),
        ("38-40", "names 40, but the data set has 40 lines"),
    ],
)
def test_indices_are_indices_of_the_data_set(problems: Any, name: str, indices: str, told: str) -> None:
    other = "VALIDATION_INDICES" if name == "TRAINING_INDICES" else "TRAINING_INDICES"

    (line,) = problems(f"{name}={indices}", f"{other}=37")
    assert line.startswith(f"CONFIG_{name}: ") and told in line


def test_the_pool_is_not_empty(problems: Any) -> None:
    assert problems("TRAINING_INDICES=") == ("CONFIG_TRAINING_INDICES: is empty",)


@pytest.mark.parametrize(("pool", "validation"), [("0-7", "7,8"), ("all", "39"), ("5", "all"), ("0-3,20-30", "4,22")])
def test_the_validation_set_has_nothing_of_the_pool(problems: Any, pool: str, validation: str) -> None:
    (line,) = problems(f"TRAINING_INDICES={pool}", f"VALIDATION_INDICES={validation}")

    assert line.startswith("CONFIG_VALIDATION_INDICES: has question ")


def test_a_data_set_has_questions(sound: Any, problems: Any) -> None:
    sound.questions.write_text("\n\n")

    assert f"CONFIG_DATA_PATH: {quote(str(sound.questions))} has no questions" in problems()


def test_the_names_of_financebench_s_options_are_accepted_for_the_general_ones(sound: Any, problems: Any) -> None:
    sound.path.write_text(sound.path.read_text().replace("CONFIG_DATA_PATH=", "CONFIG_FINANCEBENCH_PATH="))
    settings = load_settings(sound.path, ["FINANCEBENCH_POOL_INDICES=3-5", "VALIDATION_INDICES="])
    assert (settings.data_path, settings.training_indices) == (sound.questions, "3-5")
    assert problems("CONFIG_FINANCEBENCH_POOL_INDICES=99", "VALIDATION_INDICES=")[0].startswith(
        "CONFIG_TRAINING_INDICES: names 99"
    )


def test_two_columns_have_two_names(problems: Any) -> None:
    assert problems("ANSWER_COLUMN=question", "ID_COLUMN=", "CONTEXT_COLUMN=") == (
        "CONFIG_ANSWER_COLUMN: is 'question', and so is QUESTION_COLUMN",
    )


@pytest.mark.parametrize("judge", ["three_stages", "exact_number", "my_judges:Class.method", "an-entry.point"])
def test_a_judge_has_a_name_or_is_a_function(sound: Any, judge: str) -> None:
    assert load_settings(sound.path, [f"JUDGE={judge}"]).judge == judge


@pytest.mark.parametrize("judge", ["three stages", "my_judges:", ":f", "a:b:c", "x.py:f()"])
def test_another_judge_is_refused(problems: Any, judge: str) -> None:
    (line,) = problems(f"JUDGE={judge}")
    assert line.startswith("CONFIG_JUDGE: ") and "neither a judge's name nor of the form module:function" in line


# prompts, addresses, commands, limits


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{context}", "lacks the placeholder {query}"),
        ("{query}", "lacks the placeholder {context}"),
        ("no names", "lacks the placeholder {context} and {query}"),
        ("{context!r} {query:>9}", "lacks the placeholder {context} and {query}"),
    ],
)
def test_a_prompt_template_has_a_place_for_pages_and_question(problems: Any, template: str, told: str) -> None:
    assert problems(f"TARGET_PROMPT_TEMPLATE={template}") == (f"CONFIG_TARGET_PROMPT_TEMPLATE: {told}",)


@pytest.mark.parametrize("braces", ['{"answer": ...}', "{{json}}", "{}", "{", "}", "{other}"])
def test_every_other_brace_of_a_prompt_template_is_text(sound: Any, braces: str) -> None:
    template = load_settings(
        sound.path, [f"TARGET_PROMPT_TEMPLATE={braces} {{context}} {{query}}"]
    ).target_prompt_template

    assert fill(template, {"context": "pages", "query": "why?"}) == f"{braces} pages why?"


def test_an_external_farm_has_an_address_of_its_own_or_that_of_the_environment(sound: Any) -> None:
    for url in ("", "redis://127.0.0.1:6379/0", "rediss://u@host/1", "unix:///run/valkey.sock?db=0"):
        assert load_settings(sound.path, ["FARM=external", f"REDIS_URL={url}"]).redis_url == url


@pytest.mark.parametrize("url", ["localhost:6379", "http://host", "redis://", "redis://host:port"])
def test_the_address_of_a_redis_has_its_form(problems: Any, url: str) -> None:
    (line,) = problems(f"REDIS_URL={url}")

    assert line.startswith(f"CONFIG_REDIS_URL: {url!r} is not an address")


def test_a_password_is_not_told(problems: Any) -> None:
    (line,) = problems("REDIS_URL=amqp://user:secret@host")

    assert "secret" not in line


@pytest.mark.parametrize("name", ["SGLANG_URL", "OPENAI_BASE_URL"])
def test_the_address_of_a_server_is_http(sound: Any, problems: Any, name: str) -> None:
    assert problems(f"{name}=127.0.0.1:30000") == (
        f"CONFIG_{name}: '127.0.0.1:30000' is not an address of the form http://HOST:PORT",
    )
    assert load_settings(sound.path, ["EMBEDDED_ENDPOINT=openai", f"{name}=http://127.0.0.1:30000"])


def test_a_server_of_others_is_not_restarted(problems: Any) -> None:
    (line,) = problems("SGLANG_URL=http://127.0.0.1:1", "SGLANG_LIFECYCLE=restart")

    assert line.startswith("CONFIG_SGLANG_LIFECYCLE: 'restart' cannot restart the running server")


@pytest.mark.parametrize("name", ["SGLANG_COMMAND", "SGLANG_ARGS"])
def test_a_command_can_be_split(problems: Any, name: str) -> None:
    (line,) = problems(f"{name}=python 'unfinished")

    assert line.startswith(f"CONFIG_{name}: cannot be split as a shell would")


@pytest.mark.parametrize("argument", ["--port 30000", "--api-key=sesame", "--speculative-algorithm EAGLE"])
def test_the_server_s_arguments_leave_to_whetstone_what_is_its_own(problems: Any, argument: str) -> None:
    (line,) = problems(f"SGLANG_ARGS=--mem-fraction-static 0.8 {argument}")

    assert line.startswith(f"CONFIG_SGLANG_ARGS: {argument.replace('=', ' ').split()[0]} ") and "sesame" not in line


@pytest.mark.parametrize("name", ["OPENAI_API_KEY_ENV", "SGLANG_API_KEY_ENV"])
def test_a_key_in_the_place_of_its_variable_is_refused_and_not_told(problems: Any, name: str) -> None:
    (line,) = problems(f"{name}=sk-secret")

    assert line.startswith(f"CONFIG_{name}: ") and "secret" not in line


def test_a_call_fits_the_tokens_a_minute(problems: Any) -> None:
    (line,) = problems("OPENAI_TOKENS_PER_MINUTE=1000")

    assert line.startswith("CONFIG_OPENAI_TOKENS_PER_MINUTE: 1000 is less than REFLECTOR_MAX_COMPLETION_TOKENS (2048)")


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


@pytest.mark.parametrize(
    "faults", ["mutation:500", "mutation:boom:2", "mutation:500:often", "merge:hang:1", "mutate:500:2"]
)
def test_faults_are_those_that_the_embedded_endpoint_knows(problems: Any, faults: str) -> None:
    (line,) = problems(f"EMBEDDED_FAULTS={faults}")

    assert line.startswith("CONFIG_EMBEDDED_FAULTS: ") and faults in line


def test_faults_that_it_knows_are_accepted(sound: Any) -> None:
    faults = "mutation:500:2, *:rate_limit:0.5:*, verdict:hang:3:1"

    assert load_settings(sound.path, [f"EMBEDDED_FAULTS={faults}"]).embedded_faults == faults


# optimiser


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (
            ["OPTIMISER=nsga2", "POPULATION_SIZE=6"],
            "CONFIG_POPULATION_SIZE: 6 is not a multiple of 4, and OPTIMISER 'nsga2' pairs parents by fours",
        ),
        (
            ["OPTIMISER=hybrid", "HYBRID_PROPOSALS=3"],
            "CONFIG_HYBRID_PROPOSALS: 3 is more than half of POPULATION_SIZE (4)",
        ),
        (
            ["OPTIMISER=cma", "INITIAL_SPREAD=0.5"],
            "CONFIG_INITIAL_SPREAD: is an option of OPTIMISER 'reflective', which is 'cma'",
        ),
        (
            ["OPTIMISER=random", "VARY_PROPOSALS=y"],
            "CONFIG_VARY_PROPOSALS: is an option of OPTIMISER 'reflective', which is 'random'",
        ),
        (["PINNED_CLUSTERS=3,12"], "CONFIG_PINNED_CLUSTERS: names cluster 12, but the clusters are 0 to 11"),
        (
            ["PINNED_CLUSTERS=0-11"],
            "CONFIG_PINNED_CLUSTERS: names all 12 clusters, so that nothing is left to search",
        ),
    ],
)
def test_an_optimiser_that_cannot_search_so_is_refused(problems: Any, overrides: list[str], problem: str) -> None:
    assert problems(*overrides) == (problem,)


def test_several_samples_of_a_greedy_answer_are_refused(sound: Any, problems: Any) -> None:
    assert problems("SAMPLES=2") == ("CONFIG_SAMPLES: 2 answers to a question need a TARGET_TEMPERATURE above 0",)
    settings = load_settings(sound.path, ["SAMPLES=2", "TARGET_TEMPERATURE=0.7"])
    assert make_run(settings, "here").samples == 2


def test_options_of_the_genetic_algorithm_are_not_compared_for_another_optimiser(sound: Any) -> None:
    settings = load_settings(sound.path, ["OPTIMISER=cma", "ELITISM_SIZE=4", "TOURNAMENT_SIZE=9"])

    assert settings.optimiser == "cma"
