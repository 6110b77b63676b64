"""Wrong settings are refused with the names of the options, all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from orchestrator.settings import SettingsError
from orchestrator.settings.farm import folder_name
from orchestrator.settings.kconfig import load_settings

WRONG: Mapping[str, Sequence[str]] = {
    "CXPB": ("1.5", "-0.1", "half"),
    "MARGIN": ("0", "0.5"),
    "LAMBDA_SHORTNESS": ("nan",),
    "SHORTNESS_SCALE": ("0", "1e999"),
    "NGEN": ("0", "1.5", "0x10"),
    "TARGET_CONCURRENCY": ("0", "9000"),
    "EVALUATION_CACHE": ("maybe",),
    "TARGET_MODEL": ("", "./no/such/model"),
    "OUTPUT_DIR": ("", "a\x00b"),
    "REFLECTOR_TEMPERATURE": ("-1",),
    "TARGET_PROMPT_TEMPLATE": ("{context}", "{context!r} {query:>9}"),
    "JUDGE": ("three stages", "a:b:c"),
    "CALLBACKS": ("no name",),
    "FARM": ("localhost:6379",),
    "SGLANG_URL": ("127.0.0.1:30000", "unix:sglang.sock"),
    "SGLANG_ARGS": ("python 'unfinished", "--rows 8 --port 30000", "--api-key=sesame", "--speculative-algorithm EAGLE"),
    "DATA_PATH": ("missing.jsonl",),
    "INITIAL_DELTAS_PATH": ("missing.json",),
    "PROMPTS_PATH": ("elsewhere.yaml",),
    "TRAINING": ("", "1;2", "9-2", "1-5,3", "train[0:0]", "train[0:2", "train[a:b]"),
    "TEST": ("[31:]",),
    "DATA_COLUMNS": ("answer=question", "question=q question=r", "questions=q", "question='q"),
    "ELITISM_SIZE": ("4",),
    "TOURNAMENT_SIZE": ("5", "1", "-1"),
    "MUTPB": ("0",),
    "OPENAI_TOKENS_PER_MINUTE": ("1000",),
    "OPENAI_CONTEXT_TOKENS": ("2048",),
    "OPENAI_PARAMETERS": ("", "[]", '{"temperature": 3}', '{"top_p": 0}', '{"seed": "42"}', '{"tempo": 1}'),
    "OPENAI_PRICES": ("1 2", "1 2 -3", "1 2 nan"),
    "OPENAI_BASE_URL": ("api.example/v1",),
    "GOAL": ("longest",),
}
"""By option the texts that are refused."""

TOGETHER = [
    (["NGEN=" + "9" * 5000], "NGEN"),
    (["NGEN"], "NGEN"),
    (["NGEN=3", "CONFIG_NGEN=3"], "NGEN"),
    (["TARGET_SYSTEM_PROMPT=" + "x" * 2_000_000], "TARGET_SYSTEM_PROMPT"),
    (["FINANCEBENCH_POOL_INDICES=-3"], "TRAINING"),
    (["TRAINING=0-16"], "VALIDATION"),
    (["VALIDATION=train", "TRAINING=train[0:2]"], "VALIDATION"),
    (["SELECTION=truncation", "TRUNCATION_TOP_K=5"], "TRUNCATION_TOP_K"),
    (["LAMBDA_SHORTNESS=0", "LAMBDA_CORRECTNESS=0.0"], "LAMBDA_CORRECTNESS"),
    (["SGLANG_URL=http://127.0.0.1:1", "SGLANG_LIFECYCLE=restart"], "SGLANG_LIFECYCLE"),
    (["BUDGET_USD=5", "OPENAI_BASE_URL=https://api.example/v1"], "BUDGET_USD"),
    (["CLUSTERS=11"], "INITIAL_DELTAS_PATH"),
]
"""Settings that are wrong together, or under another name, and the option that is named."""


@pytest.mark.parametrize(
    ("overrides", "named"),
    [*(([f"{name}={text}"], name) for name, texts in WRONG.items() for text in texts), *TOGETHER],
)
def test_a_wrong_setting_is_refused_by_its_name(refused: Any, overrides: list[str], named: str) -> None:
    assert list(refused(*overrides)) == [named]


TEMPLATE = 'TARGET_PROMPT_TEMPLATE={"answer": ...} {{json}} {} { } {other} {context} {query}'
RIGHT = [
    ["SELECTION=truncation", "TRUNCATION_TOP_K=2", "ELITISM_SIZE=0", "TOURNAMENT_SIZE=-1", "FARM=external"],
    ["TOURNAMENT_SIZE=4", "ELITISM_SIZE=3", "LAMBDA_SHORTNESS=0", "CXPB=0", "JUDGE=my_judges:Class.method", TEMPLATE],
    ["OPTIMISER=cma", "CXPB=0", "MUTPB=0", "ELITISM_SIZE=4", "TOURNAMENT_SIZE=9", "FARM=rediss://u@host/1"],
    ["BUDGET_USD=5", "OPENAI_CONTEXT_TOKENS=2049", "SGLANG_URL=unix:/run/sglang.sock"],  # rules cost nothing
]


def test_what_is_at_the_limit_is_accepted(sound: Any) -> None:
    for overrides in RIGHT:
        assert load_settings(sound.path, overrides)


@pytest.mark.parametrize("override", ["FARM=amqp://user:secret@host", "OPENAI_API_KEY_ENV=sk-secret"])
def test_a_secret_is_not_told(refused: Any, override: str) -> None:
    [(name, why)] = refused(override).items()
    assert name == override.partition("=")[0] and "secret" not in why


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("CXPB", "0.5"),  # a fraction without quotes
        ("NGEN", '"3"'),
        ("EVALUATION_CACHE", '"y"'),
        ("REFLECTOR_MODEL", '"open'),
        ("REFLECTOR_MODEL", '"a"b"'),
        ("FARM", r'"a\nb' + "c" * 500 + '"'),
        # a single backslash, which menuconfig would lose
        ("TARGET_SYSTEM_PROMPT", r'"a\nb"'),
        ("TARGET_SYSTEM_PROMPT", r'"a\\\nb"'),
    ],
)
def test_a_value_is_written_as_its_type_is(sound: Any, refused: Any, name: str, written: str) -> None:
    sound.put(name, written)
    assert list(refused()) == [name]


def test_all_that_is_wrong_is_named_at_once_in_the_order_of_kconfig(sound: Any, refused: Any) -> None:
    sound.put("MUTPB", '"2"')
    sound.put("TARGET_CONCURRENCY", "0")
    sound.put("NGEN", "-1")
    sound.append("CONFIG_POPULATION_SZE=4")
    sound.append("# CONFIG_SEED is not set")
    sound.append("CONFIG_CXPB=0")
    sound.append("nonsense")
    found = refused("ngenn=3")
    line, *names = found
    assert line.startswith("line ")
    assert names == ["TARGET_CONCURRENCY", "NGEN", "CXPB", "MUTPB", "SEED", "POPULATION_SZE", "NGENN"]
    # and the ones that were meant
    assert "CONFIG_POPULATION_SIZE" in found["POPULATION_SZE"] and "CONFIG_NGEN?" in found["NGENN"]


def test_options_without_a_default_must_be_set(sound: Any, refused: Any) -> None:
    genetic = (
        "LAMBDA_SHORTNESS", "LAMBDA_CORRECTNESS", "INITIAL_DELTAS_PATH", "POPULATION_SIZE", "NGEN", "CXPB", "MUTPB",
        "ELITISM_SIZE", "SELECTION",
    )  # fmt: skip
    for name in genetic:
        sound.put(name, None)
    assert refused() == dict.fromkeys(genetic, "is not set")


@pytest.mark.parametrize("content", [None, b"CONFIG_SEED=\xff\xfe", b"#" * 2**21])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Any, content: bytes | None) -> None:
    path = tmp_path / "my.config"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"my\.config"):
        load_settings(path)


def test_what_is_no_name_of_a_folder_is_refused() -> None:
    for name in ("", ".", "../out", ".hidden", "a/b", "a b", "x" * 81, "名"):
        with pytest.raises(ValueError, match="is no name of a folder"):
            folder_name(name)
