"""Edits of experiences: upsert, remove, merge.  One that is invalid is left out, with its reason."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tasks.guide.experiences import (
    EntryRecord,
    Guidance,
    GuidanceMetadata,
    GuidanceStep,
    check_text,
    experience_number,
    guidance_hash,
    sort_experiences,
)

_GROUP_NUMBER = re.compile(r"第\s*([0-9]{1,9})\s*组")


@dataclass(frozen=True)
class Operation:
    """One edit.  `evidence` names tickets, by group id or as 第N组, the N-th of the bundle from 1."""

    op: Literal["upsert", "remove", "merge"]
    key: str | None
    text: str | None
    rationale: str | None
    evidence: tuple[str, ...]
    merged_from: tuple[str, ...] = ()


@dataclass(frozen=True)
class Applied:
    """The experiences after the valid operations, these as they were applied (final keys, group ids as evidence), and
    the others as (index, reason)."""

    experiences: Mapping[str, str]
    highest: int
    accepted: tuple[Operation, ...]
    rejected: tuple[tuple[int, str], ...]


@dataclass
class _Editor:
    experiences: dict[str, str]
    highest: int
    group_ids: Sequence[str]
    ticket_texts: Sequence[str]
    accepted: list[Operation] = field(default_factory=list)

    def apply(self, operation: Operation) -> None:
        evidence = resolve_evidence(operation.evidence, self.group_ids)
        if not evidence:
            raise ValueError("no evidence names a ticket of the bundle")
        edit = {"upsert": self._upsert, "remove": self._remove, "merge": self._merge}[operation.op]
        self.accepted.append(replace(edit(operation), evidence=evidence))

    def _upsert(self, operation: Operation) -> Operation:
        if operation.key is not None:
            self._require(operation.key)
        text = self._text(operation, self.experiences.values())
        key = self._new_key() if operation.key is None else operation.key
        self.experiences[key] = text
        return replace(operation, key=key, text=text, merged_from=())

    def _remove(self, operation: Operation) -> Operation:
        if operation.key is None:
            raise ValueError("there is no key")
        self._require(operation.key)
        if len(self.experiences) == 1:
            raise ValueError("the last experience stays")
        del self.experiences[operation.key]
        return replace(operation, text=None, merged_from=())

    def _merge(self, operation: Operation) -> Operation:
        merged = tuple(dict.fromkeys(key for key in operation.merged_from if key in self.experiences))
        if len(merged) < 2:
            raise ValueError("merged_from names fewer than two experiences that are there")
        if operation.key is not None and operation.key not in merged:
            raise ValueError("the key is none of merged_from")
        text = self._text(operation, [other for key, other in self.experiences.items() if key not in merged])
        key = self._new_key() if operation.key is None else operation.key
        for old in merged:
            del self.experiences[old]
        self.experiences[key] = text
        return replace(operation, key=key, text=text, merged_from=merged)

    def _require(self, key: str) -> None:
        if key not in self.experiences:
            raise ValueError("there is no experience with this key")

    def _text(self, operation: Operation, others: Iterable[str]) -> str:
        text = (operation.text or "").strip()
        if fault := check_text(text, self.ticket_texts, self.group_ids, others):
            raise ValueError(fault)
        return text

    def _new_key(self) -> str:
        self.highest += 1
        return f"G{self.highest}"


def apply_operations(
    experiences: Mapping[str, str],
    highest: int,
    operations: Sequence[Operation],
    *,
    max_operations: int,
    cap_left: int,
    group_ids: Sequence[str],
    ticket_texts: Sequence[str],
) -> Applied:
    """Apply operations in order, each to what the valid ones before it left.

    experiences: never empty, before and after; highest: the highest number that the mission ever gave; max_operations
    and cap_left: only so many of the first operations are looked at; group_ids: the bundle in its order;
    ticket_texts: the summaries of its tickets.
    """
    editor = _Editor(dict(experiences), highest, group_ids, ticket_texts)
    rejected = []
    for index, operation in enumerate(operations):
        try:
            if index >= max_operations:
                raise ValueError("over max_operations")
            if index >= cap_left:
                raise ValueError("over change_cap_per_epoch")
            editor.apply(operation)
        except ValueError as error:
            rejected.append((index, str(error)))
    left = sort_experiences(editor.experiences)
    return Applied(left, editor.highest, tuple(editor.accepted), tuple(rejected))


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


def next_guidance(before: Guidance, applied: Applied, reflection_id: str, updated_at: str) -> Guidance:
    """The guidance one step on, with the operations on record.  Removed entries stay in the metadata."""
    entries = dict(before.metadata.entries)
    for operation in applied.accepted:
        record = EntryRecord(reflection_id, operation.evidence, operation.rationale, updated_at, False, "")
        for key in _removed_by(operation):
            entries[key] = replace(record, removed=True, text=entries[key].text)
        if operation.key is not None and operation.text is not None:
            entries[operation.key] = replace(record, text=operation.text)
    step = before.step + 1
    line = GuidanceStep(step, guidance_hash(applied.experiences), reflection_id, updated_at)
    ordered = dict(sorted(entries.items(), key=lambda entry: experience_number(entry[0])))
    metadata = GuidanceMetadata(ordered, applied.highest, (*before.metadata.history, line))
    return Guidance(step, updated_at, applied.experiences, metadata)


def _removed_by(operation: Operation) -> tuple[str, ...]:
    if operation.op == "remove" and operation.key is not None:
        return (operation.key,)
    return tuple(key for key in operation.merged_from if key != operation.key)
