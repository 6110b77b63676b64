"""Settings: the options of Kconfig, read from a `.config` into a frozen dataclass and checked before a run starts.

Importing this package needs kconfiglib and pydantic, and nothing heavier.
"""

from orchestrator.settings.load import load_settings, write_config
from orchestrator.settings.options import RESUMABLE, Settings, SettingsError, changed_options
from orchestrator.settings.references import (
    cluster_ids,
    parse_indices,
    read_deltas,
    read_discovered_tokens,
    select_indices,
)
from orchestrator.settings.run import judging_settings, make_run

__all__ = [
    "RESUMABLE",
    "Settings",
    "SettingsError",
    "changed_options",
    "cluster_ids",
    "judging_settings",
    "load_settings",
    "make_run",
    "parse_indices",
    "read_deltas",
    "read_discovered_tokens",
    "select_indices",
    "write_config",
]
