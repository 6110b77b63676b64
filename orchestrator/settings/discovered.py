"""The discovered tokens in what `orchestrator collect` wrote (phase0_collect.md section 5)."""

from __future__ import annotations

import json
from pathlib import Path

from orchestrator.settings.rules import short


def read_discovered(path: Path) -> tuple[int, ...]:
    """`token_selection.v_steer_token_ids` of the JSON file at `path`: token ids, the most wasted first.

    Raises: ValueError, saying in one line what is wrong, when the file cannot be read, holds no such list, or the list
    is empty or has anything but different whole numbers from 0.
    """
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{short(str(path))} cannot be read as JSON: {error}") from error
    selection = data.get("token_selection") if isinstance(data, dict) else None
    ids = selection.get("v_steer_token_ids") if isinstance(selection, dict) else None
    if not isinstance(ids, list):
        raise ValueError(f"{short(str(path))} has no list token_selection.v_steer_token_ids: is it Phase 0's output?")
    if not ids:
        raise ValueError(f"{short(str(path))} names no discovered token")
    if wrong := [i for i in ids if not isinstance(i, int) or isinstance(i, bool) or i < 0]:
        raise ValueError(
            f"{short(str(path))} has {short(repr(wrong[0]))} among its discovered tokens, which is no token id"
        )
    if len(set(ids)) < len(ids):
        raise ValueError(f"{short(str(path))} names a discovered token twice")
    return tuple(ids)
