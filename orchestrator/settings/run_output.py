"""The section `output` of a guided and of a routed run: where its folder is, and what it is called."""

from __future__ import annotations

import dataclasses
import errno
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, StrictBool, StrictStr

from orchestrator.settings.documents import Document, Text


def folder_name(name: str) -> str:
    """A checked setting that becomes the name of a folder."""
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,79}", name):
        raise ValueError("is no name of a folder: letters, digits, '_', '-' and '.', at most 80, no '.' at the start")
    return name


@dataclass(frozen=True)
class RunOutput(Document):
    """The run's folder is `{root}/{run_id}`; without `run_id` it is made of the file's name and its content."""

    root: Text
    run_id: Annotated[StrictStr, AfterValidator(folder_name)] | None = None
    fail_if_exists: StrictBool = True

    @property
    def path(self) -> Path:
        assert self.run_id is not None  # `named` has set it
        return Path(self.root) / self.run_id

    @property
    def goes_on(self) -> str:
        """Which command goes on with an unfinished run, beside `orchestrator retry`; "" where it begins anew."""
        return "the same command" if self.fail_if_exists else ""

    def named(self, name: str, kind: str, settings_hash: str) -> RunOutput:
        """The same with a `run_id`: where it has none, of the name of the settings' file and their hash.

        The kind of the run stands for a name that has no letter or digit.
        """
        if self.run_id is not None:
            return self
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:60].strip("-") or kind
        return dataclasses.replace(self, run_id=f"{stem}-{settings_hash[:8]}")


def unwritable_folder(name: str, folder: Path) -> Iterator[str]:
    """Why nothing can be written into the folder that the option `name` names, asked before anything is spent."""
    try:
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        yield f"{name}: {folder}: {error.strerror}"
