"""The labels of a vocabulary on their way: from the clustering to the store, and from there to the server's folder."""

from __future__ import annotations

import io
import uuid
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.message import Hash, wrong

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def pack(labels: NDArray[np.integer]) -> bytes:
    """Labels as compressed bytes: about 30 kB for 50,000 tokens."""
    import numpy as np

    out = io.BytesIO()
    np.save(out, labels, allow_pickle=False)
    return zlib.compress(out.getvalue(), 9)


def unpack(packed: bytes) -> NDArray[np.integer]:
    """The inverse of `pack`.  Raises: ValueError or zlib.error for anything else."""
    import numpy as np

    labels: NDArray[np.integer] = np.load(io.BytesIO(zlib.decompress(packed)), allow_pickle=False)
    return labels


def place(packed: bytes, clustering: str, folder: Path) -> Path:
    """Have `<clustering>.npy` in the server's folder, written whole.  Raises: ValueError when it is no clustering."""
    if reason := wrong(Hash, clustering):
        raise ValueError(f"the clustering {reason}")
    path = folder / f"{clustering}.npy"
    if not path.exists():
        # Several tasks of one worker may place the same labels at once.
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        temporary.write_bytes(zlib.decompress(packed))
        temporary.replace(path)
    return path
