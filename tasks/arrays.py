"""Arrays from files: what kind and how large is checked first, and nothing in them is run.

A pickle runs code while it is loaded, so none is loaded, wherever it comes from: an array is `.npy` without objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

LABEL_TYPES = ("uint8", "uint16")
HEADER_BYTES = 10_000  # numpy writes 128


def load_array(path: Path, types: Sequence[str], shape: Sequence[int | None], most_bytes: int) -> NDArray[Any]:
    """The array of a `.npy` file, of one of these types and this shape (None: any length), with finite numbers.

    Raises: ValueError, naming the file, when it is anything else or has more than `most_bytes`; OSError.
    """
    import numpy as np

    require_file(path, most_bytes)
    try:
        # Reads the header alone, and refuses objects; a file that is shorter than its header says is refused too.
        mapped = np.lib.format.open_memmap(path, mode="r", max_header_size=HEADER_BYTES)
        return np.array(checked_array(mapped, types, shape))
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def require_file(path: Path, most_bytes: int) -> None:
    """Raises: OSError when there is no file, or something else than a file; ValueError when it is larger than that."""
    if not path.is_file():
        raise FileNotFoundError(f"{path.name} is missing")
    if (size := path.stat().st_size) > most_bytes:
        raise ValueError(f"{path.name} has {size:,} bytes, and {most_bytes:,} are allowed")


def checked_array(values: NDArray[Any], types: Sequence[str], shape: Sequence[int | None]) -> NDArray[Any]:
    """`values`, if they have one of these types and this shape, and are finite.  Raises: ValueError."""
    import numpy as np

    lengths = len(values.shape) == len(shape) and all(
        asked is None or asked == length for asked, length in zip(shape, values.shape, strict=True)
    )
    if values.dtype.name not in types or not lengths:
        wanted = [length or "any" for length in shape]
        raise ValueError(f"not {' or '.join(types)} {wanted} but {values.dtype.name} {list(values.shape)}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError("not every number is finite")
    return values
