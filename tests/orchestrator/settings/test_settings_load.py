"""A run starts from a sound `.config` only; whatever is wrong is told at once, one line an option."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

from orchestrator.settings import SettingsError, load_settings
from orchestrator.settings.model import options

UNSET = [option for option in options() if option.rule.sentinel is not None and option.rule.needed_when is None]
BOUNDED = [option for option in options() if option.rule.bounds()]
WHOLE = [option for option in options() if option.kind is int]
REAL = [option for option in options() if option.kind is float]


def by_name(some: Any) -> Any:
    return pytest.mark.parametrize("option", some, ids=lambda option: option.name)


def quoted(option: Any, value: str) -> str:
    return value if option.kind is int else f'"{value}"'


def test_a_sound_file_becomes_typed_frozen_settings(sound: Any) -> None:
    settings = load_settings(sound.path)

    assert (settings.population_size, settings.cxpb, settings.evaluation_cache) == (4, 0.5, True)
    assert (settings.farm, settings.financebench_path) == ("embedded", sound.questions)
    assert settings.cluster_descriptions_path is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.ngen = 5  # type: ignore[misc]  # that is the point


def test_an_option_that_the_file_leaves_out_has_its_default(sound: Any) -> None:
    for name in ("SEED", "JUDGE_TOLERANCE", "EVALUATION_CACHE", "LOG_LEVEL"):
        sound.leave_out(name)

    settings = load_settings(sound.path)

    assert (settings.seed, settings.judge_tolerance, settings.evaluation_cache, settings.log_level) == (
        42,
        0.01,
        True,
        "INFO",
    )


def test_each_option_without_default_must_be_in_the_file(sound: Any, problems: Any) -> None:
    for option in UNSET:
        sound.leave_out(option.name)

    assert problems() == tuple(f"CONFIG_{option.name}: is not set, and has no default" for option in UNSET)


def test_a_sentinel_is_not_a_value(sound: Any, problems: Any) -> None:
    for option in UNSET:
        sound.put(option.name, quoted(option, option.rule.sentinel))

    assert problems() == tuple(f"CONFIG_{option.name}: is not set, and has no default" for option in UNSET)


@by_name(UNSET)
def test_one_sentinel_that_is_left_stops_the_run(problems: Any, option: Any) -> None:
    assert problems(f"{option.name}={option.rule.sentinel}") == (
        f"CONFIG_{option.name}: is not set, and has no default",
    )


@pytest.mark.parametrize("side", ["low", "high"])
def test_a_value_out_of_range_is_refused_although_kconfig_would_use_the_default(
    sound: Any, problems: Any, side: str
) -> None:
    told = []
    for option in BOUNDED:
        beyond = value_beyond(option, side)
        sound.put(option.name, quoted(option, beyond))
        told.append(f"CONFIG_{option.name}: {beyond!r} is out of range ({option.rule.bounds()})")

    assert list(problems()) == told


def value_beyond(option: Any, side: str) -> str:
    rule, step = option.rule, 1 if option.kind is int else 0.001
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
        assert all("KMEANS" in line or "POPULATION" in line or "TOKENS" in line for line in error.value.problems)
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

    assert problems() == ("CONFIG_CXPB: '0.5' must stand in double quotes, as in CONFIG_CXPB=\"...\"",)


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
    sound.append(line)

    assert load_settings(sound.path).judge_forgiving is False


def test_only_a_switch_can_be_not_set(sound: Any, problems: Any) -> None:
    sound.append("# CONFIG_SEED is not set")

    assert problems() == ('CONFIG_SEED: cannot be "not set"; give it a value',)


def test_an_unknown_option_is_named_with_the_one_that_was_meant(sound: Any, problems: Any) -> None:
    sound.append("CONFIG_POPULATION_SZE=4")
    sound.append("# CONFIG_QUUX is not set")

    assert problems() == (
        "CONFIG_POPULATION_SZE: there is no such option; did you mean CONFIG_POPULATION_SIZE?",
        "CONFIG_QUUX: there is no such option",
    )


@pytest.mark.parametrize("line", ["NGEN=3", "CONFIG_NGEN 3", " CONFIG_NGEN=3", "CONFIG_NGEN = 3", "<<<<<<< HEAD"])
def test_a_line_that_assigns_nothing_is_told(sound: Any, problems: Any, line: str) -> None:
    sound.append(line)

    (told,) = problems()
    assert told.startswith("line ") and repr(line) in told


@pytest.mark.parametrize("written", ['"open', "bare", '"a" b', '"a"b"'])
def test_a_string_is_one_string_in_quotes(sound: Any, problems: Any, written: str) -> None:
    sound.put("REFLECTOR_MODEL", written)

    (line,) = problems()
    assert line.startswith("CONFIG_REFLECTOR_MODEL: ") and "double quotes" in line


@pytest.mark.parametrize("name", ["TARGET_MODEL", "REFLECTOR_MODEL", "OUTPUT_DIR", "SGLANG_COMMAND", "CLUSTERS_DIR"])
def test_some_strings_cannot_be_empty(sound: Any, problems: Any, name: str) -> None:
    sound.put(name, '""')

    assert problems() == (f"CONFIG_{name}: is empty",)


def test_the_last_of_two_assignments_counts(sound: Any) -> None:
    sound.put("NGEN", "wrong")
    sound.append("CONFIG_NGEN=7")

    assert load_settings(sound.path).ngen == 7


def test_all_problems_are_told_at_once_in_the_order_of_kconfig(sound: Any, problems: Any) -> None:
    sound.put("MUTPB", '"2"')
    sound.put("GPU_SLOTS", "0")
    sound.put("NGEN", "-1")
    sound.append("CONFIG_UNHEARD_OF=1")
    sound.append("nonsense")

    assert [line.split(":")[0].split(" ")[0] for line in problems()] == [
        "line", "CONFIG_GPU_SLOTS", "CONFIG_NGEN", "CONFIG_MUTPB", "CONFIG_UNHEARD_OF",
    ]  # fmt: skip


def test_a_problem_is_one_line_whatever_the_value(sound: Any, problems: Any) -> None:
    sound.put("FARM", r'"a\nb' + "c" * 500 + '"')

    (line,) = problems()
    assert "\n" not in line and len(line) < 200


def test_kconfig_s_opinion_of_a_value_counts_too(sound: Any, monkeypatch: pytest.MonkeyPatch, problems: Any) -> None:
    # given a Kconfig whose bounds are narrower than the dataclass knows
    from orchestrator.settings import kconfig

    narrow = sound.folder / "Kconfig"
    narrow.write_text(kconfig.kconfig_file().read_text().replace("range 1 64", "range 1 2"))
    monkeypatch.setattr(kconfig, "kconfig_file", lambda: narrow)
    sound.put("GPU_SLOTS", "5")

    # then the value is refused, not replaced
    assert problems() == ("CONFIG_GPU_SLOTS: '5' is not accepted by Kconfig, which would use '1'",)


def test_a_config_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"missing\.config: cannot be read: No such file"):
        load_settings(tmp_path / "missing.config")
    (tmp_path / "binary.config").write_bytes(b"CONFIG_SEED=\xff\xfe")
    with pytest.raises(SettingsError, match=r"binary\.config: is not UTF-8 text"):
        load_settings(tmp_path / "binary.config")


def test_windows_line_ends_and_a_byte_order_mark_do_no_harm(sound: Any) -> None:
    before = load_settings(sound.path)
    sound.path.write_bytes(b"\xef\xbb\xbf" + sound.path.read_bytes().replace(b"\n", b"\r\n"))

    assert load_settings(sound.path) == before


def test_numbers_keep_their_value(sound: Any) -> None:
    sound.put("SHORTNESS_SCALE", '"1e2"')
    sound.put("LAMBDA_SHORTNESS", '".1"')
    sound.put("SEED", "007")

    settings = load_settings(sound.path)

    assert (settings.shortness_scale, settings.lambda_shortness, settings.seed) == (100.0, 0.1, 7)
    assert all(math.isfinite(getattr(settings, option.field)) for option in REAL)


# --set


@pytest.mark.parametrize("overrides", [["NGEN=9", "CONFIG_CXPB=0.25"], {"NGEN": "9", "CONFIG_CXPB": "0.25"}])
def test_an_override_takes_the_place_of_the_file(sound: Any, overrides: Any) -> None:
    settings = load_settings(sound.path, overrides)

    assert (settings.ngen, settings.cxpb) == (9, 0.25)


def test_an_override_mends_what_is_wrong_in_the_file(sound: Any) -> None:
    sound.put("NGEN", "none")
    sound.put("CXPB", "0.5")
    sound.leave_out("MUTPB")

    settings = load_settings(sound.path, ["NGEN=2", "CXPB=1", "MUTPB=0"])

    assert (settings.ngen, settings.cxpb, settings.mutpb) == (2, 1.0, 0.0)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("NGEN=-1", "CONFIG_NGEN: is not set, and has no default"),
        ("CONFIG_CXPB=1.5", "CONFIG_CXPB: '1.5' is out of range (0 to 1)"),
        ("GPU_SLOTS=1000", "CONFIG_GPU_SLOTS: '1000' is out of range (1 to 64)"),
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
