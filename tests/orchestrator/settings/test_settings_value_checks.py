"""What the value of an option must be by itself."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.settings import load_settings
from tasks.template import fill


@pytest.mark.parametrize("name", ["LAMBDA_SHORTNESS", "LAMBDA_CORRECTNESS"])
@pytest.mark.parametrize("weight", ["-0.1", "1.01"])
def test_weights_lie_between_0_and_1(problems: Any, name: str, weight: str) -> None:
    assert problems(f"{name}={weight}") == (f"CONFIG_{name}: '{weight}' is out of range (0 to 1)",)


@pytest.mark.parametrize("name", ["TARGET_MODEL", "EMBEDDER_MODEL"])
def test_a_model_in_a_folder_must_be_there(sound: Any, problems: Any, name: str) -> None:
    assert problems(f"{name}=./no/such/model") == (f"CONFIG_{name}: './no/such/model' is not a folder",)
    assert load_settings(sound.path, [f"{name}={sound.folder}"])


@pytest.mark.parametrize("judge", ["three_stages", "exact_number", "my_judges:Class.method", "an-entry.point"])
def test_a_judge_has_a_name_or_is_a_function(sound: Any, judge: str) -> None:
    assert load_settings(sound.path, [f"JUDGE={judge}"]).judge == judge


@pytest.mark.parametrize("judge", ["three stages", "my_judges:", ":f", "a:b:c", "x.py:f()"])
def test_another_judge_is_refused(problems: Any, judge: str) -> None:
    (line,) = problems(f"JUDGE={judge}")
    assert line.startswith("CONFIG_JUDGE: ") and "neither a judge's name nor of the form module:function" in line


@pytest.mark.parametrize(
    ("trackers", "told"),
    [
        ("mlflow,comet", "'comet' is none of the trackers mlflow, tensorboard, wandb"),
        ("wandb, mlflow, wandb", "'wandb, mlflow, wandb' names a tracker twice"),
    ],
)
def test_trackers_are_known_and_named_once(problems: Any, trackers: str, told: str) -> None:
    assert problems(f"TRACKERS={trackers}") == (f"CONFIG_TRACKERS: {told}",)


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


def test_a_running_server_may_listen_on_a_unix_socket(problems: Any, sound: Any) -> None:
    assert load_settings(sound.path, ["SGLANG_URL=unix:/run/sglang.sock"]).sglang_url == "unix:/run/sglang.sock"
    assert problems("SGLANG_URL=unix:sglang.sock") == (
        "CONFIG_SGLANG_URL: 'unix:sglang.sock' is not an address of the form unix:/PATH/OF/A/SOCKET",
    )


@pytest.mark.parametrize("name", ["SGLANG_COMMAND", "SGLANG_ARGS"])
def test_a_command_can_be_split(problems: Any, name: str) -> None:
    (line,) = problems(f"{name}=python 'unfinished")

    assert line.startswith(f"CONFIG_{name}: cannot be split as a shell would")


@pytest.mark.parametrize(
    "argument",
    ["--port 30000", "--api-key=sesame", "--speculative-algorithm EAGLE", "--tokenizer-worker-num 2", "--enable-http2"],
)
def test_the_server_s_arguments_leave_to_whetstone_what_is_its_own(problems: Any, argument: str) -> None:
    (line,) = problems(f"SGLANG_ARGS=--mem-fraction-static 0.8 {argument}")

    assert line.startswith(f"CONFIG_SGLANG_ARGS: {argument.replace('=', ' ').split()[0]} ") and "sesame" not in line


@pytest.mark.parametrize("name", ["OPENAI_API_KEY_ENV", "SGLANG_API_KEY_ENV"])
def test_a_key_in_the_place_of_its_variable_is_refused_and_not_told(problems: Any, name: str) -> None:
    (line,) = problems(f"{name}=sk-secret")

    assert line.startswith(f"CONFIG_{name}: ") and "secret" not in line


@pytest.mark.parametrize(
    "faults", ["mutation:500", "mutation:boom:2", "mutation:500:often", "merge:hang:1", "mutate:500:2"]
)
def test_faults_are_those_that_the_embedded_endpoint_knows(problems: Any, faults: str) -> None:
    (line,) = problems(f"EMBEDDED_FAULTS={faults}")

    assert line.startswith("CONFIG_EMBEDDED_FAULTS: ") and faults in line


def test_faults_that_it_knows_are_accepted(sound: Any) -> None:
    faults = "mutation:500:2, *:rate_limit:0.5:*, verdict:hang:3:1"

    assert load_settings(sound.path, [f"EMBEDDED_FAULTS={faults}"]).embedded_faults == faults
