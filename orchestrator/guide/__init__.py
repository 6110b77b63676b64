"""The run kind `guide`: a frozen model that judges tickets learns the rules in its prompt."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from orchestrator.guide.settings import GuideOptions


class StageBPipeline:
    """What `orchestrator guide` does, for a script: `config` is its YAML file, or the values of one."""

    # Imports are in the methods: commands that only show a run start without them.

    def __init__(self, config: str | PathLike[str] | Mapping[str, Any], options: GuideOptions | None = None) -> None:
        from orchestrator.guide.settings import GuideOptions, guide_settings_from, read_guide_settings

        if isinstance(config, Mapping):
            self.settings = guide_settings_from(config)
        else:
            self.settings = read_guide_settings(Path(config))
        self.options = options or GuideOptions()

    def run_all(self, step: Literal["all", "ingest"] = "all") -> Path:
        """The whole run, or what is left of one that was interrupted, or one step, as `--step`; returns its folder.

        Raises: as `orchestrator.api.evolve`; RunStopped also when it was stopped by its data.
        """
        from orchestrator.api import result_of
        from orchestrator.guide.run import start_guide

        return result_of(start_guide(self.settings, self.options, step=step), self.settings.folder).folder
