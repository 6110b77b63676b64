r"""Kconfig's own parser, kept from turning a hand-written ``\n`` into an ``n``."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import kconfiglib

from orchestrator.settings.text import as_kconfig_writes

PREFIX = "CONFIG_"


def kconfig_file() -> Path:
    """Where Kconfig lies: the root of a checkout, or this folder when installed from a wheel."""
    beside = Path(__file__).parent / "Kconfig"
    return beside if beside.is_file() else Path(__file__).parents[2] / "Kconfig"


class Kconfig(kconfiglib.Kconfig):  # type: ignore[misc]  # kconfiglib has no types
    """`kconfiglib.Kconfig` over this project's options; reads both ``\n`` and ``\\n`` in a string as ``\n``."""

    def __init__(self, warn: bool = False) -> None:
        super().__init__(str(kconfig_file()), warn=warn)

    def load_config(self, filename: str | None = None, replace: bool = True, verbose: object = None) -> str:
        """As in kconfiglib; also where menuconfig's own dialogue loads a file.

        Raises: OSError when the file cannot be read, kconfiglib.KconfigError when it is not UTF-8.
        """
        path = Path(filename or kconfiglib.standard_config_filename())
        if filename is None and not path.exists():
            return str(super().load_config(None, replace))
        try:
            written = path.read_text("utf-8-sig")
        except UnicodeDecodeError as error:
            raise kconfiglib.KconfigError(f"{path} is not UTF-8 text: {error}") from error
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, path.name)
            Path(copy).write_text(as_kconfig_writes(written), "utf-8")
            return str(super().load_config(copy, replace)).replace(copy, str(path))
