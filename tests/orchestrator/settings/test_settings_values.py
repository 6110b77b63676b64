"""What one option may hold: its bounds, its words, and how each is written."""

from __future__ import annotations

import math
from typing import Any

import pytest

from orchestrator.settings import SettingsError, load_settings
from orchestrator.settings.options import options

BOUNDED = [option for option in options() if option.rule.bounds()]
WHOLE = [option for option in options() if option.kind is int]
REAL = [option for option in options() if option.kind is float]


@pytest.mark.parametrize("side", ["low", "high"])
def test_a_value_out_of_range_is_refused_although_kconfig_would_use_the_default(
    sound: Any, problems: Any, side: str
) -> None:
    told = []
    for option in BOUNDED:
        beyond = value_beyond(option, side)
        sound.put_typed(option, beyond)
        told.append(f"CONFIG_{option.name}: {beyond!r} is out of range ({option.rule.bounds()})")

    assert list(problems()) == told


def value_beyond(option: Any, side: str) -> str:
    rule, step = option.rule, 1 if option.kind in (int, int | None) else 0.001
    if side == "high":
        return str(rule.high + step)
    if rule.above:
        return str(rule.low)
    # one below the lowest allowed value may be the sentinel, which has a line of its own
    return str(rule.low - step) if str(rule.low - step) != rule.sentinel else str(rule.low - step - 1)


def test_the_bounds_themselves_are_accepted_by_the_options_and_by_kconfig(sound: Any) -> None:
    for bound in ("low", "high"):
        overrides = {
            option.name: f"{getattr(option.rule, bound):.0f}"
            for option in BOUNDED
            if not (bound == "low" and option.rule.above)
        }
        with pytest.raises(SettingsError) as error:
            load_settings(sound.path, overrides)

        # only what options have against one another
        names = ("KMEANS", "LAMBDA", "MUTPB", "POPULATION", "TOKENS")
        assert all(any(name in line for name in names) for line in error.value.problems)
        assert "out of range" not in str(error.value) and "accepted" not in str(error.value)


@pytest.mark.parametrize("written", ["many", "1.5", "0x10", "1_0", '"3"', "", "9" * 5000])
def test_a_whole_number_is_nothing_else(sound: Any, problems: Any, written: str) -> None:
    for option in WHOLE:
        sound.put(option.name, written)

    told = problems()
    assert len(told) == len(WHOLE)
    for option, line in zip(WHOLE, told, strict=True):
        assert line.startswith(f"CONFIG_{option.name}: ") and "is not a whole number" in line


@pytest.mark.parametrize("written", ["nan", "inf", "-inf", "Infinity", "1e999"])
def test_a_number_is_finite(sound: Any, problems: Any, written: str) -> None:
    for option in REAL:
        sound.put(option.name, f'"{written}"')

    assert list(problems()) == [f"CONFIG_{option.name}: '{written}' is not finite" for option in REAL]


@pytest.mark.parametrize("written", ["half", "1,5", "0x1p3", "1_0", " 1"])
def test_a_number_is_written_as_one(sound: Any, problems: Any, written: str) -> None:
    for option in REAL:
        sound.put(option.name, f'"{written}"')

    told = problems()
    assert len(told) == len(REAL)
    for option, line in zip(REAL, told, strict=True):
        assert line.startswith(f"CONFIG_{option.name}: '{written}' is not a number")


def test_a_number_with_a_fraction_stands_in_quotes(sound: Any, problems: Any) -> None:
    sound.put("CXPB", "0.5")

    assert problems() == ("CONFIG_CXPB: '0.5' must be in double quotes, as in CONFIG_CXPB=\"...\"",)


@pytest.mark.parametrize("name", ["FARM", "TARGET_ENGINE", "SELECTION", "DEVICE", "SGLANG_LIFECYCLE", "LOG_LEVEL"])
def test_a_word_is_one_of_its_words(sound: Any, problems: Any, name: str) -> None:
    sound.put(name, '"Other"')

    (line,) = problems()
    assert line.startswith(f"CONFIG_{name}: 'Other' is not one of: ")


@pytest.mark.parametrize("written", ["yes", "true", "1", '"y"', ""])
def test_a_switch_is_y_or_n(sound: Any, problems: Any, written: str) -> None:
    sound.put("JUDGE_FORGIVING", written)

    assert problems() == (f"CONFIG_JUDGE_FORGIVING: {written!r} is neither y nor n",)


@pytest.mark.parametrize("line", ["CONFIG_JUDGE_FORGIVING=n", "# CONFIG_JUDGE_FORGIVING is not set"])
def test_a_switch_can_be_off_in_both_of_kconfig_s_ways(sound: Any, line: str) -> None:
    sound.leave_out("JUDGE_FORGIVING")
    sound.append(line)

    assert load_settings(sound.path).judge_forgiving is False


def test_only_a_switch_can_be_not_set(sound: Any, problems: Any) -> None:
    sound.leave_out("SEED")
    sound.append("# CONFIG_SEED is not set")

    assert problems() == ('CONFIG_SEED: cannot be "not set"; give it a value',)


@pytest.mark.parametrize("written", ['"open', "bare", '"a" b', '"a"b"'])
def test_a_string_is_one_string_in_quotes(sound: Any, problems: Any, written: str) -> None:
    sound.put("REFLECTOR_MODEL", written)

    (line,) = problems()
    assert line.startswith("CONFIG_REFLECTOR_MODEL: ") and "double quotes" in line


@pytest.mark.parametrize("name", ["TARGET_MODEL", "REFLECTOR_MODEL", "OUTPUT_DIR", "SGLANG_COMMAND", "CLUSTERS_DIR"])
def test_some_strings_cannot_be_empty(sound: Any, problems: Any, name: str) -> None:
    sound.put(name, '""')

    assert problems() == (f"CONFIG_{name}: is empty",)


def test_numbers_keep_their_value(sound: Any) -> None:
    sound.put("SHORTNESS_SCALE", '"1e2"')
    sound.put("LAMBDA_SHORTNESS", '".1"')
    sound.put("SEED", "007")

    settings = load_settings(sound.path)

    assert (settings.shortness_scale, settings.lambda_shortness, settings.seed) == (100.0, 0.1, 7)
    assert all(math.isfinite(getattr(settings, option.field)) for option in REAL)


OPTIONAL = [f"{who}_{name}" for who in ("REFLECTOR", "JUDGE") for name in ("TEMPERATURE", "TOP_P", "SEED")]


@pytest.mark.parametrize("name", OPTIONAL)
def test_what_a_reasoning_model_refuses_is_left_out_by_an_empty_text(sound: Any, problems: Any, name: str) -> None:
    sound.put(name, '""')

    settings = load_settings(sound.path)

    assert getattr(settings, name.lower()) is None
    assert problems(f"{name}=-1")[0].startswith(f"CONFIG_{name}: '-1' is out of range (")
