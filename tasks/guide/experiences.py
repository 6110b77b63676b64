"""The experiences of a mission: numbered rules in the prompt, where each comes from, and the edits that change them."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from tasks.common.text import break_control_tokens

LONGEST = 300  # characters of an experience

_KEY = re.compile(r"G(0|[1-9][0-9]{0,8})")
_GROUP_NUMBER = re.compile(r"第\s*([0-9]{1,9})\s*组")
_SENTENCE_END = re.compile(r"[。！？!?\r\n]+|\.(?=\s|$)")
_WORD = r"[A-Za-z0-9_-]"


@dataclass(frozen=True)
class EntryRecord:
    """Where an experience comes from; of a removed one, its last text."""

    reflection_id: str | None  # None: it was there at the start
    evidence: tuple[str, ...]
    rationale: str | None
    updated_at: str
    removed: bool
    text: str


@dataclass(frozen=True)
class GuidanceStep:
    """One step in the history of the guidance: the hash of its experiences, and the reflection that made it."""

    step: int
    hash: str
    reflection_id: str | None
    updated_at: str


@dataclass(frozen=True)
class GuidanceMetadata:
    """All entries that the mission ever had, the highest number ever given, and every step."""

    entries: Mapping[str, EntryRecord] = field(default_factory=dict)
    highest: int = -1
    history: tuple[GuidanceStep, ...] = ()


@dataclass(frozen=True)
class Guidance:
    """The experiences of a mission at one step, by key (`G0`), in the order of their numbers."""

    step: Annotated[int, Field(ge=0)]
    updated_at: str
    experiences: Mapping[str, str]
    metadata: GuidanceMetadata = GuidanceMetadata()


def _number(key: str) -> int:
    found = _KEY.fullmatch(key)
    if found is None:
        raise ValueError(f"{key!r} is not G and a number")
    return int(found[1])


def sort_experiences(experiences: Mapping[str, str]) -> dict[str, str]:
    """G2 before G10."""
    return {key: experiences[key] for key in sorted(experiences, key=_number)}


def render_experiences(experiences: Mapping[str, str]) -> str:
    """The block of a prompt: `[G0]. ...`, one experience a line, in the order of their numbers."""
    return "\n".join(f"[{key}]. {text}" for key, text in sort_experiences(experiences).items())


def guidance_hash(experiences: Mapping[str, str]) -> str:
    """The sha256 (hex) of the experiences as JSON: keys sorted as text, no spaces, UTF-8."""
    text = json.dumps(dict(experiences), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# The guidance of a mission, step by step.  What is gone stays in the metadata.


def edited_guidance(
    before: Guidance, experiences: Mapping[str, str], step: int, updated_at: str, reflection_id: str | None
) -> Guidance:
    """The guidance after an edit that no proposal made; without metadata before it, the first of its history."""
    entries = dict(before.metadata.entries)
    for key, entry in entries.items():
        if key not in experiences and not entry.removed:
            entries[key] = replace(entry, removed=True, reflection_id=reflection_id, updated_at=updated_at)
    for key, text in experiences.items():
        known = entries.get(key)
        if known is None or known.removed or known.text != text:
            entries[key] = EntryRecord(reflection_id, (), None, updated_at, False, text)
    return _at_step(step, experiences, entries, before.metadata, reflection_id, updated_at)


def next_guidance(before: Guidance, applied: Applied, reflection_id: str, updated_at: str) -> Guidance:
    """The guidance one step on, with the operations on record."""
    entries = dict(before.metadata.entries)
    for one in applied.accepted:
        record = EntryRecord(reflection_id, one.evidence, one.rationale, updated_at, False, "")
        for key in (one.key,) if one.op == "remove" else one.merged_from:
            entries[str(key)] = replace(record, removed=True, text=entries[str(key)].text)
        if one.op != "remove":
            entries[str(one.key)] = replace(record, text=one.text or "")
    known = replace(before.metadata, highest=applied.highest)
    return _at_step(before.step + 1, applied.experiences, entries, known, reflection_id, updated_at)


def _at_step(
    step: int,
    experiences: Mapping[str, str],
    entries: Mapping[str, EntryRecord],
    before: GuidanceMetadata,
    reflection_id: str | None,
    updated_at: str,
) -> Guidance:
    ordered = {key: entries[key] for key in sorted(entries, key=_number)}
    line = GuidanceStep(step, guidance_hash(experiences), reflection_id, updated_at)
    metadata = GuidanceMetadata(ordered, max(before.highest, *map(_number, entries)), (*before.history, line))
    return Guidance(step, updated_at, sort_experiences(experiences), metadata)


# Which texts may be an experience: each check returns why one may not, None where it may


def normalised(text: str) -> str:
    """A text for comparison: width, case, spaces and punctuation make no difference."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(c for c in folded if unicodedata.category(c)[0] not in "PZC")


def form_fault(text: str) -> str | None:
    if not text.strip():
        return "the text is empty"
    if len(text.splitlines()) > 1 or any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in text):
        return "the text is not one line"
    if break_control_tokens(text) != text:
        return "the text has a control token of a chat"
    return f"the text has {len(text)} characters, more than {LONGEST}" if len(text) > LONGEST else None


def check_experiences(experiences: Mapping[str, str]) -> None:
    if not experiences:
        raise ValueError("experiences is empty: a mission has at least one")
    for key, text in experiences.items():
        _number(key)
        if fault := form_fault(text):
            raise ValueError(f"experiences.{key}: {fault}")


def check_text(text: str, copied: set[str], group_ids: Iterable[str], others: Iterable[str]) -> str | None:
    """It is one line, names no ticket (a group id as a word of its own, in any case and width), is not the same as
    another experience but for case and punctuation, and has no sentence of `copied`, which are those of summaries.
    """
    if fault := form_fault(text):
        return fault
    folded = unicodedata.normalize("NFKC", text).casefold()
    ids = (re.escape(unicodedata.normalize("NFKC", group_id).casefold()) for group_id in group_ids)
    if any(re.search(f"(?<!{_WORD}){one}(?!{_WORD})", folded) for one in ids) or _GROUP_NUMBER.search(text):
        return "the text names a ticket"
    if normalised(text) in {normalised(other) for other in others}:
        return "there is an experience with this text"
    if copied & sentences(text):
        return "the text has a sentence of a ticket"
    return None


def sentences(text: str) -> set[str]:
    """For comparison.  A point ends a sentence only before a space or the end: 0.5 is a number."""
    return {plain for part in _SENTENCE_END.split(text) if (plain := normalised(part))}


# Edits


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One edit.  `evidence` names tickets, by group id or as 第N组, the N-th of the bundle from 1."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    op: Literal["upsert", "remove", "merge"]
    key: str | None = None
    text: str | None = None
    rationale: str | None = None
    evidence: tuple[str, ...]
    # Strict mode takes no default.
    merged_from: Annotated[tuple[str, ...], Field(json_schema_extra=lambda schema: schema.pop("default", None))] = ()


@dataclass(frozen=True)
class Applied:
    """The experiences after the valid operations, these as they were applied (final keys, group ids as evidence), and
    the others as (index, reason).
    """

    experiences: Mapping[str, str]
    highest: int
    accepted: tuple[Operation, ...]
    rejected: tuple[tuple[int, str], ...]


def apply_operations(
    experiences: Mapping[str, str],
    highest: int,
    operations: Sequence[Operation],
    *,
    max_operations: int,
    cap_left: int,
    bundle: Sequence[str],
    tickets: Mapping[str, Iterable[str]],
) -> Applied:
    """Apply operations in order, each to what the valid ones before it left; the last experience stays.

    highest: the highest number that the mission ever gave; max_operations and cap_left: only so many of the first
    operations are looked at; bundle: the group ids that can be evidence, in their order; tickets: the summaries of all
    tickets of the mission, by group id.
    """
    now, accepted, rejected = dict(experiences), list[Operation](), list[tuple[int, str]]()
    copied = set[str]().union(*(sentences(text) for texts in tickets.values() for text in texts))
    for index, operation in enumerate(operations):
        try:
            if index >= max_operations:
                raise ValueError("over max_operations")
            if index >= cap_left:
                raise ValueError("over change_cap_per_epoch")
            valid = _validated(operation, now, bundle, tickets, copied)
        except ValueError as error:
            rejected.append((index, str(error)))
            continue
        if valid.key is None:
            highest += 1
            valid = replace(valid, key=f"G{highest}")
        for key in [valid.key] if valid.op == "remove" else valid.merged_from:
            del now[str(key)]
        if valid.text is not None:
            now[str(valid.key)] = valid.text
        accepted.append(valid)
    return Applied(sort_experiences(now), highest, tuple(accepted), tuple(rejected))


def _validated(
    operation: Operation, now: Mapping[str, str], bundle: Sequence[str], group_ids: Iterable[str], copied: set[str]
) -> Operation:
    """The operation as it is applied to the experiences `now`; a ValueError says why it cannot be."""
    evidence = resolve_evidence(operation.evidence, bundle)
    if not evidence:
        raise ValueError("no evidence names a ticket of the bundle")
    key, merged = operation.key, tuple[str, ...]()
    if operation.op == "merge":
        merged = tuple(dict.fromkeys(key for key in operation.merged_from if key in now))
        if len(merged) < 2:
            raise ValueError("merged_from names fewer than two experiences that are there")
        if key is not None and key not in merged:
            raise ValueError("the key is none of merged_from")
    elif key is not None and key not in now:
        raise ValueError("there is no experience with this key")
    if operation.op == "remove":
        if key is None:
            raise ValueError("there is no key")
        if len(now) == 1:
            raise ValueError("the last experience stays")
        return replace(operation, text=None, evidence=evidence, merged_from=())
    text = (operation.text or "").strip()
    others = [other for name, other in now.items() if name not in merged]
    if fault := check_text(text, copied, group_ids, others):
        raise ValueError(fault)
    return replace(operation, text=text, evidence=evidence, merged_from=merged)


def resolve_evidence(evidence: Iterable[str], group_ids: Sequence[str]) -> tuple[str, ...]:
    """The group ids that evidence names, each once; what names no ticket of the bundle is left out."""
    found = []
    for name in evidence:
        number = _GROUP_NUMBER.fullmatch(unicodedata.normalize("NFKC", name).strip())
        if name.strip() in group_ids:
            found.append(name.strip())
        elif number and 1 <= int(number[1]) <= len(group_ids):
            found.append(group_ids[int(number[1]) - 1])
    return tuple(dict.fromkeys(found))
