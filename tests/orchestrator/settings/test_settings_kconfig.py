"""Kconfig and the dataclass say the same, and Kconfig teaches."""

from __future__ import annotations

import dataclasses
import functools
import subprocess
import sys
from typing import Any, Literal, get_args, get_origin

import kconfiglib
import pytest

from orchestrator.settings.kconfig import Kconfig, kconfig_file
from orchestrator.settings.options import Option, Settings, options

KINDS = {bool: kconfiglib.BOOL, int: kconfiglib.INT}


@functools.cache
def symbols() -> Any:
    return Kconfig().syms


def symbol_of(option: Option) -> Any:
    return symbols()[option.name]


def every(wanted: Any) -> Any:
    return pytest.mark.parametrize("option", [one for one in options() if wanted(one)], ids=lambda option: option.name)


def test_kconfig_has_the_options_of_the_dataclass_in_the_same_order() -> None:
    symbols = [symbol.name.lower() for symbol in Kconfig().unique_defined_syms]

    assert symbols == [field.name for field in dataclasses.fields(Settings)]


def test_kconfig_parses_without_a_warning() -> None:
    kconfig = Kconfig(warn=True)

    assert kconfig.warnings == []


def test_it_is_called_whetstone_and_every_option_lies_in_a_menu() -> None:
    kconfig = Kconfig()

    assert kconfig.mainmenu_text == "Whetstone"
    assert all(node.parent is not kconfig.top_node for s in kconfig.unique_defined_syms for node in s.nodes)


@every(lambda option: True)
def test_an_option_has_one_prompt_one_help_text_and_the_type_of_its_field(option: Option) -> None:
    symbol = symbol_of(option)

    (node,) = symbol.nodes
    assert node.prompt[0]
    assert len(node.help.split()) >= 8
    assert symbol.orig_type == KINDS.get(option.kind, kconfiglib.STRING)


@every(lambda option: option.kind in (int, float))
def test_a_number_names_its_unit_and_has_bounds(option: Option) -> None:
    (node,) = symbol_of(option).nodes

    assert option.rule.unit and option.rule.bounds()
    assert node.help.splitlines()[-1].startswith(f"Unit: {option.rule.unit}")


@every(lambda option: option.kind is int)
def test_kconfig_and_the_rule_have_the_same_bounds(option: Option) -> None:
    ((low, high, _),) = symbol_of(option).ranges

    expected = option.rule.low if option.rule.sentinel is None else -1
    assert (int(low.str_value), int(high.str_value)) == (expected, option.rule.high)


@every(lambda option: get_origin(option.kind) is Literal)
def test_a_prompt_names_the_words_to_choose_from(option: Option) -> None:
    (node,) = symbol_of(option).nodes

    assert [word for word in get_args(option.kind) if word not in node.prompt[0] + node.help] == []


def test_the_genetic_evolution_and_nothing_else_is_without_defaults() -> None:
    kconfig = Kconfig()
    menu = next(node for node in kconfig.node_iter() if node.prompt and node.prompt[0] == "Genetic evolution")
    genetic = {
        node.item.name for node in kconfig.node_iter() if node.parent is menu and node.item != kconfiglib.COMMENT
    }

    assert {option.name for option in options() if option.rule.sentinel is not None} == genetic
    assert all(kconfig.syms[o.name].str_value == o.rule.sentinel for o in options() if o.name in genetic)
    assert len(genetic) == 11


def test_kconfig_is_found_at_the_root_of_a_checkout() -> None:
    assert kconfig_file().name == "Kconfig"
    assert (kconfig_file().parent / "pyproject.toml").is_file()


def test_importing_the_settings_loads_nothing_heavy() -> None:
    heavy = "{'torch', 'numpy', 'transformers', 'openai', 'celery', 'redis', 'httpx', 'deap', 'matplotlib'}"
    code = f"import sys, orchestrator.settings; print({heavy} & set(sys.modules))"

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "set()"
