"""What a command that only judges must know: judge and endpoint, from a `.config` or from Kconfig's defaults."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from orchestrator.settings.kconfig import Kconfig
from orchestrator.settings.load import load_settings
from orchestrator.settings.model import Settings, options
from orchestrator.settings.rules import read_value
from orchestrator.settings.run import endpoint_of, judge_of
from tasks.run import Endpoint, Judge

_PARTS = ("judge_", "openai_", "budget_")


def judging_settings(config: Path | None) -> tuple[Judge, Endpoint]:
    """The judge and the endpoint of the file `config`, or those of nobody's choosing.

    Raises: SettingsError for a file that does not load.
    """
    settings = load_settings(config) if config is not None else _defaults()
    return judge_of(settings), endpoint_of(settings)


def _defaults() -> Settings:
    """Kconfig's defaults of the options that matter here; others, some of which have none, are not there."""
    kconfig = Kconfig()
    values = {
        option.field: read_value(option.kind, option.rule, kconfig.syms[option.name].str_value)
        for option in options()
        if option.field.startswith(_PARTS)
    }
    return cast(Settings, SimpleNamespace(**values))
