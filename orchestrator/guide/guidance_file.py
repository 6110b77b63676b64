"""A file of experiences, as a person or a run has written it: read, checked, and written as text.

    {mission: {"step": 3, "updated_at": ..., "experiences": {"G0": ..., "G2": ...}, "metadata": {...}}}

`metadata` says where each entry comes from, the highest number ever given, and the hash of every step.  A file without
it is one that a person wrote.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from orchestrator.guide.names import mission_name
from orchestrator.output import OutputError, read_json
from tasks.escape import quote
from tasks.guide.experiences import (
    Guidance,
    GuidanceMetadata,
    check_experiences,
    edited_guidance,
    experience_number,
    first_guidance,
    guidance_hash,
    is_consistent,
    sort_experiences,
)
from tasks.validation import InvalidData, parse_json, unrepeated


class GuidanceError(OutputError):
    """A file of experiences that cannot be used, or that somebody has changed; one line."""


class GuidanceEntry(TypedDict):
    """One mission in a file of experiences."""

    step: Annotated[int, Field(ge=0)]
    updated_at: str
    experiences: dict[str, str]
    metadata: NotRequired[GuidanceMetadata]


@dataclass(frozen=True)
class StoredGuidance:
    """The guidance of one mission in a file; `by_hand`: a person has changed it since a program wrote it."""

    guidance: Guidance
    by_hand: bool


def read_guidance(path: Path) -> dict[str, StoredGuidance]:
    """The guidance of each mission in a file, which a person may have written.

    An entry without metadata begins its history at its step.  Where a person has edited an entry that has a history,
    and raised its step, the edit is one more step of that history.  Raises: GuidanceError, also for an edit without a
    new step.
    """
    try:
        entries = read_json(path, dict[str, GuidanceEntry], _parse_unrepeated)
    except FileNotFoundError:
        raise GuidanceError(f"{path} cannot be read: there is no such file") from None
    except OutputError as error:
        raise GuidanceError(str(error)) from None
    found: dict[str, StoredGuidance] = {}
    for mission, entry in entries.items():
        name = mission_name(mission)
        if name in found:
            raise GuidanceError(f"{path}: {quote(name)} occurs twice, in two spellings of Unicode")
        try:
            found[name] = _stored(entry)
        except ValueError as error:
            raise GuidanceError(f"{path}: {quote(mission)}: {error}") from None
    return found


def guidance_text(guidance: Mapping[str, Guidance]) -> str:
    """The text of a file with these missions."""
    entries = {mission: dataclasses.asdict(one) for mission, one in guidance.items()}
    return json.dumps(entries, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _parse_unrepeated(kind: type[Any], text: bytes) -> Any:
    try:
        json.loads(text, object_pairs_hook=unrepeated)
    except (ValueError, RecursionError) as error:
        raise error if isinstance(error, InvalidData) else InvalidData(f"it is not JSON: {error}") from None
    return parse_json(kind, text)


def _stored(entry: GuidanceEntry) -> StoredGuidance:
    """Raises: ValueError."""
    check_experiences(entry["experiences"])
    experiences = sort_experiences(entry["experiences"])
    step, updated_at = entry["step"], entry["updated_at"]
    if "metadata" not in entry:
        first = first_guidance(experiences, updated_at)
        history = (replace(first.metadata.history[0], step=step),)
        guidance = replace(first, step=step, metadata=replace(first.metadata, history=history))
        return StoredGuidance(guidance, by_hand=True)
    metadata = entry["metadata"]
    if not metadata.history:
        raise ValueError("metadata.history is empty")
    last = metadata.history[-1]
    ordered = {key: metadata.entries[key] for key in sorted(metadata.entries, key=experience_number)}
    guidance = Guidance(step, updated_at, experiences, replace(metadata, entries=ordered))
    if (step, guidance_hash(experiences)) == (last.step, last.hash) and is_consistent(guidance):
        return StoredGuidance(guidance, by_hand=False)
    if step <= last.step:
        raise ValueError(
            f"its experiences are not those of step {last.step} as its metadata has them, and its step is no higher one"
        )
    before = replace(guidance, step=last.step)
    return StoredGuidance(edited_guidance(before, experiences, step, updated_at, None), by_hand=True)
