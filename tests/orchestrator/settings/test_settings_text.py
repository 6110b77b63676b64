"""A prompt never loses a newline, whoever wrote the file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.settings import Settings, load_settings, write_config
from orchestrator.settings.kconfig import Kconfig, as_kconfig_writes, decoded, escaped, typed_from_quoted

TEXTS = st.text(st.one_of(st.sampled_from('\\"\n\r\tn'), st.characters(exclude_categories=["Cs"])))


@given(TEXTS)
def test_typed_text_is_one_line_and_means_what_was_meant(string: str) -> None:
    assert "\n" not in escaped(string)
    assert decoded(escaped(string)) == string


@given(TEXTS)
def test_what_a_person_writes_reads_the_same_before_and_after_kconfig_s_spelling(string: str) -> None:
    line = f'CONFIG_X="{string}"'
    quoted = as_kconfig_writes(line).removeprefix("CONFIG_X=")

    assert typed_from_quoted(quoted) == typed_from_quoted(line.removeprefix("CONFIG_X="))
    assert as_kconfig_writes(as_kconfig_writes(line)) == as_kconfig_writes(line)


@pytest.mark.parametrize(
    ("written", "means"),
    [
        (r'"a\nb"', "a\nb"),  # by hand
        (r'"a\\nb"', "a\nb"),  # by menuconfig
        (r'"a\\\\nb"', r"a\nb"),
        (r'"a\\\nb"', r"a\nb"),
        (r'"say \"a\"\n"', 'say "a"\n'),
        (r'"\d+ and \\d+"', r"\d+ and \d+"),
        (r'"tab\tthere"', "tab\tthere"),
        ('"\u2028 and \x85 stay"', "\u2028 and \x85 stay"),
        ('"ümläut 漢字"', "ümläut 漢字"),
    ],
)
def test_a_string_in_the_file_reaches_the_settings_as_meant(sound: Any, written: str, means: str) -> None:
    sound.put("TARGET_SYSTEM_PROMPT", written)

    assert load_settings(sound.path).target_system_prompt == means


def test_the_default_template_has_newlines(sound: Any) -> None:
    assert load_settings(sound.path).target_prompt_template == "Context:\n{context}\n\nQuestion:\n{query}"


@pytest.mark.parametrize("save", ["write_config", "write_min_config"])
@pytest.mark.parametrize("written", [r'"One.\nTwo \"2\" \\ three.\n"', r'"One.\\nTwo \"2\" \\ three.\\n"'])
def test_newlines_survive_kconfig_s_own_writing(sound: Any, tmp_path: Path, save: str, written: str) -> None:
    # given a file with newlines in both prompts
    sound.put("TARGET_SYSTEM_PROMPT", written)
    sound.put("TARGET_PROMPT_TEMPLATE", r'"{context}\n\n{query}"')
    before = load_settings(sound.path)

    # when Kconfig reads and writes it, twice over
    for number in range(2):
        kconfig = Kconfig()
        kconfig.load_config(str(sound.path if number == 0 else tmp_path / "saved0"))
        getattr(kconfig, save)(str(tmp_path / f"saved{number}"))

    # then the prompts are as they were
    assert before.target_system_prompt == 'One.\nTwo "2" \\ three.\n'
    assert load_settings(tmp_path / "saved1") == before


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
