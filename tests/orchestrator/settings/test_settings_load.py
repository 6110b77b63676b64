"""A run starts from a sound `.config` only; whatever is wrong is told at once, one line an option."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from orchestrator.settings import SettingsError, load_settings
from orchestrator.settings.options import options

UNSET = [option for option in options() if option.rule.sentinel is not None and option.rule.needed_when is None]


def test_a_sound_file_becomes_typed_frozen_settings(sound: Any) -> None:
    settings = load_settings(sound.path)

    assert (settings.population_size, settings.cxpb, settings.evaluation_cache) == (4, 0.5, True)
    assert (settings.farm, settings.data_path) == ("embedded", sound.questions)
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
        sound.put_typed(option, option.rule.sentinel)

    assert problems() == tuple(f"CONFIG_{option.name}: is not set, and has no default" for option in UNSET)


@pytest.mark.parametrize("option", UNSET, ids=lambda option: option.name)
def test_one_sentinel_that_is_left_stops_the_run(problems: Any, option: Any) -> None:
    assert problems(f"{option.name}={option.rule.sentinel}") == (
        f"CONFIG_{option.name}: is not set, and has no default",
    )


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


def test_an_option_that_is_given_twice_is_refused_with_both_lines(sound: Any, problems: Any) -> None:
    """Kconfig takes the last one; a second name of an option counts as the option."""
    lines = sound.path.read_text().splitlines()
    first = next(number for number, line in enumerate(lines, start=1) if line.startswith("CONFIG_NGEN="))
    sound.append("CONFIG_NGEN=7")
    sound.append(f'CONFIG_FINANCEBENCH_PATH="{sound.questions}"')

    data, ngen = problems()
    assert ngen == f"CONFIG_NGEN: is given twice, in lines {first} and {len(lines) + 1}"
    assert data.startswith("CONFIG_DATA_PATH: is given twice, in lines ")


def test_an_option_that_is_overridden_twice_is_refused_with_both_values(sound: Any) -> None:
    for second in ("NGEN=4", "CONFIG_NGEN=4"):
        with pytest.raises(SettingsError, match=r"CONFIG_NGEN: is set twice, to '3' and to '4'"):
            load_settings(sound.path, ["NGEN=3", second])


def test_an_override_is_no_second_value(sound: Any) -> None:
    sound.append("CONFIG_NGEN=7")

    assert load_settings(sound.path, ["NGEN=3"]).ngen == 3


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
    narrow.write_text(kconfig.kconfig_file().read_text().replace("range 1 256", "range 1 2", 1))
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
