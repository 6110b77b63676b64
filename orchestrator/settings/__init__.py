"""Settings: Kconfig's options, read from a `.config` into one frozen dataclass, checked before anything starts.

Importing this package needs kconfiglib and nothing heavier.
"""

from orchestrator.settings.load import load_settings
from orchestrator.settings.options import RESUMABLE, Settings, SettingsError, changed_options
from orchestrator.settings.references import (
    cluster_ids,
    parse_indices,
    read_deltas,
    read_discovered_tokens,
    select_indices,
)
from orchestrator.settings.run import judging_settings, make_run
from orchestrator.settings.write import write_config

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
