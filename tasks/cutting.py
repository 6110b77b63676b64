"""Limits on the length of a prompt, and texts that are cut in the middle to keep them."""

from __future__ import annotations

from collections.abc import Callable

SHORTEST = 80  # characters of a text that are always kept


def cut_middle(text: str, length: int) -> str:
    """`text` with its middle replaced by a note, where it is longer than `length` characters; about that long then."""
    if len(text) <= length:
        return text
    half = length // 2
    return f"{text[:half]} [... {len(text) - 2 * half} characters cut ...] {text[len(text) - half :]}"


def largest_length(longest: int, fits: Callable[[int], bool]) -> int:
    """The largest length from `SHORTEST` to `longest` that fits, or `SHORTEST` where none does."""
    low, high = SHORTEST, max(SHORTEST, longest)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def smallest_limit(*limits: int) -> int:
    """Of limits of which 0 is none, the one that holds."""
    return min((limit for limit in limits if limit), default=0)
