"""Kconfig and the dataclass say the same."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import kconfiglib

from orchestrator.settings.kconfig import Kconfig
from orchestrator.settings.options import Settings, options

KINDS = {bool: kconfiglib.BOOL, int: kconfiglib.INT}


def test_kconfig_has_the_options_of_the_dataclass_and_parses_without_a_warning() -> None:
    kconfig = Kconfig(warn=True)

    assert {s.name.lower() for s in kconfig.unique_defined_syms} == {f.name for f in dataclasses.fields(Settings)}
    assert kconfig.warnings == []


def test_an_option_has_the_type_and_the_bounds_of_its_field() -> None:
    kconfig = Kconfig()
    for option in options():
        symbol = kconfig.syms[option.name]
        assert symbol.orig_type == KINDS.get(option.kind, kconfiglib.STRING), option.name
        if option.kind is int:
            ((low, high, _),) = symbol.ranges
            expected = option.rule.low if option.rule.sentinel is None else -1
            assert (int(low.str_value), int(high.str_value)) == (expected, option.rule.high), option.name


def test_the_genetic_evolution_and_nothing_else_is_without_defaults() -> None:
    kconfig = Kconfig()
    menu = next(node for node in kconfig.node_iter() if node.prompt and node.prompt[0] == "Genetic evolution")
    genetic = {
        node.item.name for node in kconfig.node_iter() if node.parent is menu and node.item != kconfiglib.COMMENT
    }

    assert {option.name for option in options() if option.rule.sentinel is not None} == genetic
    assert all(kconfig.syms[o.name].str_value == o.rule.sentinel for o in options() if o.name in genetic)
    assert len(genetic) == 11


def test_importing_the_settings_loads_nothing_heavy() -> None:
    heavy = "{'torch', 'numpy', 'transformers', 'openai', 'celery', 'redis', 'httpx', 'deap', 'matplotlib'}"
    code = f"import sys, orchestrator.settings; print({heavy} & set(sys.modules))"

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "set()"
