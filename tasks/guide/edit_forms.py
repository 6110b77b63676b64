"""The JSON schemas of edits that can be applied to given experiences, for a model that writes under a grammar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.guide.experiences import LONGEST
from tasks.openai.schema import strict_object


def edit_forms(
    keys: Sequence[str],
    before: Mapping[str, Any],
    after: Mapping[str, Any] | None = None,
    most_merged: int | None = None,
) -> list[dict[str, Any]]:
    """One schema for each operation that these experiences allow: with one experience nothing is removed or merged.

    `before` and `after` are properties before and after the text, in the order in which the model writes them.
    `most_merged`: a merge names its experiences, at most so many; without it there is none.
    """
    known = {"type": "string", "enum": [*keys]}
    known_or_new = {"type": ["string", "null"], "enum": [*keys, None]}
    text = {"text": {"type": "string", "minLength": 1, "maxLength": LONGEST}}

    def form(op: str, *properties: Mapping[str, Any]) -> dict[str, Any]:
        whole: dict[str, Any] = {"op": {"type": "string", "enum": [op]}}
        for some in (*properties, after or {}):
            whole |= some
        return strict_object(whole)

    forms = [form("upsert", {"key": known_or_new}, before, text)]
    if len(keys) > 1:
        forms.append(form("remove", {"key": known}, before))
    if len(keys) > 1 and most_merged is not None:
        merged = {"merged_from": {"type": "array", "items": known, "minItems": 2, "maxItems": most_merged}}
        forms.append(form("merge", merged, {"key": known_or_new}, before, text))
    return forms


def any_of(forms: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return forms[0] if len(forms) == 1 else {"anyOf": list(forms)}
