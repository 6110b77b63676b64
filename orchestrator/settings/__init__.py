"""Settings: the options of Kconfig, read from a `.config` into a frozen dataclass and checked before a run starts.

Importing this package needs kconfiglib and pydantic, and nothing heavier.
"""

from orchestrator.settings.inputs import (
    parse_selection,
    read_discovered_tokens,
    read_sides,
)
from orchestrator.settings.kconfig import load_settings, write_config
from orchestrator.settings.options import RESUMABLE, Settings, SettingsError, changed_options
from orchestrator.settings.run import judging_settings, make_run
from orchestrator.settings.start import cluster_layout, layout_of, pinned_of

__all__ = [
    "RESUMABLE",
    "Settings",
    "SettingsError",
    "changed_options",
    "cluster_layout",
    "judging_settings",
    "layout_of",
    "load_settings",
    "make_run",
    "parse_selection",
    "pinned_of",
    "read_discovered_tokens",
    "read_sides",
    "write_config",
]
