"""`--set` takes the place of what the file says, and is checked like it."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.settings import load_settings


@pytest.mark.parametrize("overrides", [["NGEN=9", "CONFIG_CXPB=0.25"], {"NGEN": "9", "CONFIG_CXPB": "0.25"}])
def test_an_override_takes_the_place_of_the_file(sound: Any, overrides: Any) -> None:
    settings = load_settings(sound.path, overrides)

    assert (settings.ngen, settings.cxpb) == (9, 0.25)


def test_an_override_mends_what_is_wrong_in_the_file(sound: Any) -> None:
    sound.put("NGEN", "none")
    sound.put("CXPB", "0.5")
    sound.leave_out("MUTPB")

    settings = load_settings(sound.path, ["NGEN=2", "CXPB=1", "MUTPB=0.25"])

    assert (settings.ngen, settings.cxpb, settings.mutpb) == (2, 1.0, 0.25)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("NGEN=-1", "CONFIG_NGEN: is not set, and has no default"),
        ("CONFIG_CXPB=1.5", "CONFIG_CXPB: '1.5' is out of range (0 to 1)"),
        ("GPU_SLOTS=1000", "CONFIG_GPU_SLOTS: '1000' is out of range (1 to 256)"),
        ("LAMBDA_SHORTNESS=nan", "CONFIG_LAMBDA_SHORTNESS: 'nan' is not finite"),
        ("EVALUATION_CACHE=maybe", "CONFIG_EVALUATION_CACHE: 'maybe' is neither y nor n"),
        ("NGNE=3", "CONFIG_NGNE: there is no such option; did you mean CONFIG_NGEN?"),
        ("ngen=3", "CONFIG_ngen: there is no such option; did you mean CONFIG_NGEN?"),
        ("NGEN", "CONFIG_NGEN: has no value; write NAME=VALUE"),
    ],
)
def test_an_override_is_checked_like_the_file(problems: Any, override: str, told: str) -> None:
    assert problems(override) == (told,)


def test_an_override_has_newlines_typed_or_real_and_equal_signs(sound: Any) -> None:
    settings = load_settings(
        sound.path, [r"TARGET_PROMPT_TEMPLATE={context}\n{query}", "TARGET_SYSTEM_PROMPT=a=b\nc", "EVALUATION_CACHE=n"]
    )

    assert settings.target_prompt_template == "{context}\n{query}"
    assert settings.target_system_prompt == "a=b\nc"
    assert settings.evaluation_cache is False
