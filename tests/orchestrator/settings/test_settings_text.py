"""A prompt never loses a newline, whoever wrote the file."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.settings import SettingsError
from orchestrator.settings.kconfig import load_settings, write_config
from orchestrator.settings.options import Settings

TEXTS = st.text(st.one_of(st.sampled_from('\\"\n\r\tn'), st.characters(exclude_categories=["Cs"])))


@pytest.mark.parametrize(
    ("written", "means"),
    [
        (r'"a\\nb"', "a\nb"),
        (r'"a\\\\nb"', r"a\nb"),
        (r'"say \"a\"\\n"', 'say "a"\n'),
        (r'"\\d+"', r"\d+"),
        (r'"tab\\tthere"', "tab\tthere"),
        ('"\u2028 and \x85 stay"', "\u2028 and \x85 stay"),
        ('"ümläut 漢字"', "ümläut 漢字"),
    ],
)
def test_a_string_in_the_file_reaches_the_settings_as_meant(sound: Any, written: str, means: str) -> None:
    sound.put("TARGET_SYSTEM_PROMPT", written)

    assert load_settings(sound.path).target_system_prompt == means


@pytest.mark.parametrize("written", [r'"a\nb"', r'"a\\\nb"'])
def test_a_single_backslash_is_refused_as_menuconfig_would_lose_it(sound: Any, written: str) -> None:
    sound.put("TARGET_SYSTEM_PROMPT", written)
    with pytest.raises(SettingsError, match="for each backslash"):
        load_settings(sound.path)


@pytest.fixture(scope="module")
def shared_settings(shared_sound: Any) -> Settings:
    return load_settings(shared_sound.path)


@settings(deadline=None, max_examples=25)
@given(string=TEXTS)
def test_any_prompt_comes_back_from_a_written_file(shared_sound: Any, shared_settings: Settings, string: str) -> None:
    before = dataclasses.replace(shared_settings, target_system_prompt=string)
    path = shared_sound.folder / "written.config"

    write_config(before, path)

    assert load_settings(path) == before
