"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, whether it is well, what was seen, and how to mend it when it is not."""

    check: str
    ok: bool
    said: str
    mend: str = ""


def well(check: str, said: str) -> Finding:
    return Finding(check, True, said)


def wrong(check: str, said: str, mend: str) -> Finding:
    return Finding(check, False, said, mend)


GIGABYTE = 1e9
LEAST_FREE = 1 * GIGABYTE  # bytes; a run writes megabytes, a full disk ends Valkey's append-only file


def disk(check: str, free: float) -> Finding:
    """`free` in bytes."""
    said = f"{free / GIGABYTE:.1f} GB free"
    if free >= LEAST_FREE:
        return well(check, said)
    return wrong(check, said, f"make room: at least {LEAST_FREE / GIGABYTE:.0f} GB")
