"""`StageBPipeline`: what `orchestrator guide` does, for a script."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from orchestrator import console
from orchestrator.api import RunStopped
from orchestrator.guide.options import GuideOptions
from orchestrator.guide.run import Step, start_guide
from orchestrator.guide.settings import GuideSettings, guide_settings_from, read_guide_settings


class StageBPipeline:
    """A run of `guide`: `config` is its YAML file, the values of one, or checked settings.

    Raises: SettingsError with everything that is wrong.
    """

    def __init__(
        self, config: str | PathLike[str] | Mapping[str, Any] | GuideSettings, options: GuideOptions | None = None
    ) -> None:
        if isinstance(config, GuideSettings):
            self.settings = config
        elif isinstance(config, Mapping):
            self.settings = guide_settings_from(config)
        else:
            self.settings = read_guide_settings(Path(config))
        self.options = options or GuideOptions()

    def run_all(self) -> Path:
        """The whole run, or what is left of one that was interrupted; returns its folder.

        Raises: SettingsError, OutputError, FarmUnavailable; RunStopped when it parked or was stopped by its data.
        """
        return self.run_step("all")

    def run_step(self, step: Step) -> Path:
        """One step, as `--step`.  Raises: as `run_all`."""
        ending = start_guide(self.settings, self.options, step=step)
        if ending.status == console.INTERRUPTED:
            raise KeyboardInterrupt(*ending.lines)
        if ending.status != console.DONE:
            raise RunStopped(ending.status, ending.lines)
        return self.settings.folder
