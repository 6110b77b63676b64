"""From `Settings` back to a complete `.config`."""

from __future__ import annotations

from pathlib import Path

from orchestrator.settings.kconfig import Kconfig, typed
from orchestrator.settings.options import Settings, options
from orchestrator.settings.rules import Value
from tasks.files import open_atomic

_HEADER = "# Settings of Whetstone, complete.\n"


def write_config(settings: Settings, path: Path) -> None:
    """Write every option to `path` in Kconfig's format; `load_settings(path)` gives equal settings again.

    The file appears at once and whole.  Raises: OSError when it cannot be written.
    """
    kconfig = Kconfig()
    for option in options():
        kconfig.syms[option.name].set_value(typed_value(getattr(settings, option.field)))
    with open_atomic(path) as out:
        kconfig.write_config(out.name, header=_HEADER, save_old=False)  # it takes a name, and no open file


def typed_value(value: Value) -> str:
    """What a person would type into menuconfig for `value`."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "y" if value else "n"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return typed(str(value))
