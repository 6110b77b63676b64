"""Weights & Biases: a run of the project WANDB_PROJECT, by W&B's own variables; WANDB_MODE=offline needs no server."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import wandb

from orchestrator.callbacks import RunEnd, RunInfo
from orchestrator.trackers import END_S, Tracker

PROJECT = "whetstone"


class WandbTracker(Tracker):
    """The run has the same id there as here."""

    name: ClassVar[str] = "wandb"

    def begin(self, run: RunInfo) -> None:
        settings = wandb.Settings(
            silent=True, console="off", x_disable_stats=True, save_code=False, init_timeout=END_S, finish_timeout=END_S
        )
        if wandb.setup().settings.mode in ("online", "shared") and not wandb.login(prompt=False):
            raise RuntimeError("W&B has no API key: set WANDB_API_KEY, or WANDB_MODE=offline")
        self._there = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            id=run.id,
            name=run.id,
            job_type=run.kind,
            dir=os.environ.get("WANDB_DIR") or str(run.folder),
            resume="allow",
            reinit="create_new",
            settings=settings,
        )
        self._there.config.update({name: _plain(value) for name, value in run.settings.items()}, allow_val_change=True)

    def metrics(self, step: int, figures: Mapping[str, float]) -> None:
        self._there.log(dict(figures), step=step)

    def artifacts(self, paths: Sequence[Path]) -> None:
        artifact = wandb.Artifact(f"run-{self._there.id}", type="run")
        for path in paths:
            artifact.add_file(str(path))
        self._there.log_artifact(artifact)
        self._there.log({path.stem: wandb.Image(str(path)) for path in paths if path.suffix == ".png"})

    def finish(self, end: RunEnd, summary: str) -> None:
        self._there.summary.update({"state": end.state, "summary": summary})
        self._there.finish(exit_code=0 if end.state == "finished" else 1)


def _plain(value: object) -> object:
    return value if isinstance(value, bool | int | float) else str(value)
