"""Settings: Kconfig's options, read from a `.config` into one frozen dataclass, checked before anything starts.

Importing this package needs kconfiglib and nothing heavier.
"""

from orchestrator.settings.deltas import cluster_ids, read_deltas
from orchestrator.settings.discovered import read_discovered
from orchestrator.settings.errors import SettingsError
from orchestrator.settings.indices import parse_indices, select_indices
from orchestrator.settings.judging import judging_settings
from orchestrator.settings.load import load_settings
from orchestrator.settings.model import Settings
from orchestrator.settings.resume import MAY_CHANGE, changed
from orchestrator.settings.run import make_run
from orchestrator.settings.write import write_config

__all__ = [
    "MAY_CHANGE",
    "Settings",
    "SettingsError",
    "changed",
    "cluster_ids",
    "judging_settings",
    "load_settings",
    "make_run",
    "parse_indices",
    "read_deltas",
    "read_discovered",
    "select_indices",
    "write_config",
]
