"""The experiences of a mission: numbered rules in the prompt, with where each comes from."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tasks.openai.prompt_escaping import break_control_tokens

LONGEST = 300  # characters of an experience

_KEY = re.compile(r"G(0|[1-9][0-9]{0,8})")
_GROUP_NUMBER = re.compile(r"第\s*[0-9]+\s*组")
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

    entries: Mapping[str, EntryRecord]
    highest: int
    history: tuple[GuidanceStep, ...]


@dataclass(frozen=True)
class Guidance:
    """The experiences of a mission at one step, by key (`G0`), in the order of their numbers."""

    step: int
    updated_at: str
    experiences: Mapping[str, str]
    metadata: GuidanceMetadata


def experience_number(key: str) -> int:
    """The number of an experience: 10 of `G10`."""
    found = _KEY.fullmatch(key)
    if found is None:
        raise ValueError(f"{key!r} is not G and a number")
    return int(found[1])


def sort_experiences(experiences: Mapping[str, str]) -> dict[str, str]:
    """The same experiences, G2 before G10."""
    return dict(sorted(experiences.items(), key=lambda item: experience_number(item[0])))


def render_experiences(experiences: Mapping[str, str]) -> str:
    """The block of a prompt: `[G0]. ...`, one experience a line, in the order of their numbers."""
    return "\n".join(f"[{key}]. {text}" for key, text in sort_experiences(experiences).items())


def guidance_hash(experiences: Mapping[str, str]) -> str:
    """The sha256 (hex) of the experiences as JSON: keys sorted as text, no spaces, UTF-8."""
    text = json.dumps(dict(experiences), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def first_guidance(experiences: Mapping[str, str], updated_at: str, step: int = 0) -> Guidance:
    """The guidance with which a mission's history begins, of one or more experiences."""
    ordered = sort_experiences(experiences)
    entries = {key: EntryRecord(None, (), None, updated_at, False, text) for key, text in ordered.items()}
    history = (GuidanceStep(step, guidance_hash(ordered), None, updated_at),)
    highest = max(experience_number(key) for key in ordered)
    return Guidance(step, updated_at, ordered, GuidanceMetadata(entries, highest, history))


def is_consistent(guidance: Guidance) -> bool:
    """Whether the metadata's entries are those of the experiences, and no number is above the highest."""
    entries = guidance.metadata.entries
    present = {key: entry.text for key, entry in entries.items() if not entry.removed}
    highest = max(experience_number(key) for key in entries) if entries else -1
    return present == dict(guidance.experiences) and highest <= guidance.metadata.highest


def edited_guidance(
    before: Guidance, experiences: Mapping[str, str], step: int, updated_at: str, reflection_id: str | None
) -> Guidance:
    """The guidance after an edit that no proposal made.  What is gone stays in the metadata."""
    entries = dict(before.metadata.entries)
    for key, entry in entries.items():
        if key not in experiences and not entry.removed:
            entries[key] = replace(entry, removed=True, reflection_id=reflection_id, updated_at=updated_at)
    for key, text in experiences.items():
        known = entries.get(key)
        if known is None or known.removed or known.text != text:
            entries[key] = EntryRecord(reflection_id, (), None, updated_at, False, text)
    highest = max(before.metadata.highest, *map(experience_number, entries))
    line = GuidanceStep(step, guidance_hash(experiences), reflection_id, updated_at)
    ordered = {key: entries[key] for key in sorted(entries, key=experience_number)}
    metadata = GuidanceMetadata(ordered, highest, (*before.metadata.history, line))
    return Guidance(step, updated_at, sort_experiences(experiences), metadata)


def normalised(text: str) -> str:
    """A text for comparison: width, case, spaces and punctuation make no difference."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(c for c in folded if unicodedata.category(c)[0] not in "PZC")


def form_fault(text: str) -> str | None:
    """Why a text is no line of a prompt, None where it is one."""
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
        experience_number(key)
        if fault := form_fault(text):
            raise ValueError(f"experiences.{key}: {fault}")


def check_text(text: str, ticket_texts: Iterable[str], group_ids: Iterable[str], others: Iterable[str]) -> str | None:
    """Why a text may not be an experience, None where it may.

    It is one line, names no ticket, is not the same as another experience but for case and punctuation, and has no
    sentence that is a sentence of a ticket's summary.
    """
    if fault := form_fault(text):
        return fault
    if any(_names(text, group_id) for group_id in group_ids) or _GROUP_NUMBER.search(text):
        return "the text names a ticket"
    if normalised(text) in {normalised(other) for other in others}:
        return "there is an experience with this text"
    copied = {sentence for summary in ticket_texts for sentence in _sentences(summary)}
    if copied & _sentences(text):
        return "the text has a sentence of a ticket"
    return None


def _names(text: str, group_id: str) -> bool:
    """Whether a group id stands in a text as a word of its own, in any case and width."""
    folded, wanted = (unicodedata.normalize("NFKC", part).casefold() for part in (text, group_id))
    return bool(re.search(f"(?<!{_WORD}){re.escape(wanted)}(?!{_WORD})", folded))


def _sentences(text: str) -> frozenset[str]:
    """The sentences of a text, for comparison.  A point ends one only before a space or the end: 0.5 is a number."""
    return frozenset(plain for part in _SENTENCE_END.split(text) if (plain := normalised(part)))
