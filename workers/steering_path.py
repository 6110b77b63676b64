"""The folder by which a server that we start finds the steering module, without anything being installed for it."""

from __future__ import annotations

import os
from pathlib import Path

from workers import steering
from workers.atomic_file import write_text


def make(folder: Path) -> Path:
    """Make `folder` ready for PYTHONPATH and return it: the steering module and nothing else of ours.

    To the server it looks like the installed distribution, entry point included, so SGLang loads the plugin by itself.
    Our other packages stay away: the server's Python may not be ours, and theirs must not be hidden by ours.
    Raises: OSError.
    """
    metadata = folder / f"{steering.NAME}-{steering.VERSION}.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    write_text(metadata / "METADATA", f"Metadata-Version: 2.1\nName: {steering.NAME}\nVersion: {steering.VERSION}\n")
    write_text(metadata / "entry_points.txt", f"[sglang.srt.plugins]\nwhetstone = {steering.PLUGIN}\n")
    link, package = folder / steering.NAME, Path(steering.__file__).parent
    if not link.exists() or link.resolve() != package.resolve():
        temporary = folder / f".{steering.NAME}.{os.getpid()}"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(package, target_is_directory=True)
        temporary.replace(link)
    return folder
