"""JSON replies of critic and reflector that are almost right: ways to spoil a right one, and what must become of each.

PYTHONPATH=.:tests/fuzz python tests/fuzz/guide_json.py     prints the table of outcomes
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from tasks.guide.critique import parse_critique
from tasks.guide.proposal import parse_proposal
from tasks.guide.replies import Rejected

Outcome = Literal["the same", "refused", "either"]
"""What becomes of a changed input: it is read as the right one is, or not at all, or that depends on the place."""
REPLIES = 500
SEEN = ("the same", "another one", "refused")  # what is seen; "another one" is read, but says something else

CRITIQUE = {
    "summary": "It says pass, and the label is fail.",
    "critique": "“图2螺丝缺失” decides; the answer \"saw\" nothing.\nSo it is wrong.",
    "root_cause": "a missing experience",
    "issues": ["image_1 and image_2 contradict each other"],
    "candidate_ops": [{"op": "upsert", "key": None, "text": "A missing screw is a fail.", "rationale": "r"}],
    "uncertainty_note": None,
}  # fmt: skip
OPERATION = {
    "op": "upsert", "key": "G0", "text": "缺少螺丝的工单不通过。", "rationale": "r", "evidence": ["第1组"],
    "merged_from": [],
}  # fmt: skip
PROPOSAL = {
    "action": "refine", "summary": "s", "critique": "c", "operations": [OPERATION], "evidence_group_ids": ["t-1"],
    "uncertainty_note": None,
}  # fmt: skip
REQUIRED = {"critique": ("summary", "critique"), "proposal": ("action", "operations", "evidence_group_ids")}
Reply = tuple[str, str]  # text, and how it ended
Said = dict[str, Any]
Spoil = Callable[[random.Random, Said, Sequence[str]], str | Reply]


def said(value: Any, **how: Any) -> str:
    return json.dumps(value, **{"ensure_ascii": False, **how})


def around(*forms: str) -> Spoil:
    """The reply in one of some texts, where it stands for `*`."""
    return lambda rng, value, _required: rng.choice(forms).replace("*", said(value))


def with_field(*values: Any) -> Spoil:
    """A required field of another type."""

    def spoil(rng: random.Random, value: Said, required: Sequence[str]) -> str:
        return said({**value, rng.choice(required): rng.choice(values)})

    return spoil


def cut(rng: random.Random, value: Said, _required: Sequence[str]) -> str:
    whole = said(value)
    return whole[: rng.randrange(1, len(whole))]


def ended(how: str) -> Spoil:
    return lambda _rng, value, _required: (said(value), how)


def without_required(rng: random.Random, value: Said, required: Sequence[str]) -> str:
    gone = rng.choice(required)
    return said({key: one for key, one in value.items() if key != gone})


def without_optional(rng: random.Random, value: Said, required: Sequence[str]) -> str:
    """Without what is null anyway."""
    return said({key: one for key, one in value.items() if one is not None})


def in_other_order(rng: random.Random, value: Said, _required: Sequence[str]) -> str:
    return said(dict(rng.sample([*value.items()], len(value))), indent=rng.choice([None, 2]))


def unknown_operation(rng: random.Random, value: Said, _required: Sequence[str]) -> str:
    name = "operations" if "operations" in value else "candidate_ops"
    [one] = value[name]
    return said({**value, name: [{**one, "op": rng.choice(["add", "UPSERT", "delete", "", None, 1])}]})


def one_character(rng: random.Random, value: Said, _required: Sequence[str]) -> str:
    whole, new = said(value), rng.choice('a"{}[],: \\\n\x000')
    at, taken = rng.randrange(len(whole)), rng.choice([0, 1, 1])
    return whole[:at] + rng.choice([new, ""]) + whole[at + taken :]


SPOILED: Mapping[str, tuple[Outcome, Spoil]] = {
    "space and line ends around it": ("the same", around(" *", "\n*\n", "\t*\r\n")),
    "fields in another order, indented": ("the same", in_other_order),
    "escaped beyond ASCII": ("the same", lambda _rng, value, _required: said(value, ensure_ascii=True)),
    "fields left out that are null": ("the same", without_optional),
    "a code fence": ("refused", around("```json\n*\n```", "```\n*\n```", "`*`")),
    "words before or after": ("refused", around("Sure! *", "*\nI hope that helps.", "JSON: *", "<think></think>*")),
    "two objects": ("refused", around("* *", "*\n*", "*,*", "[*]", "{}*")),
    "JSON in a string": ("refused", lambda _rng, value, _required: said(said(value))),
    "cut anywhere": ("refused", cut),
    "whole, but ended at max_new_tokens": ("refused", ended("length")),
    "whole, but ended at a stop string": ("refused", ended("stop_string")),
    "a refusal, a content filter": ("refused", lambda rng, value, _r: ("", rng.choice(["refusal", "content_filter"]))),
    "nothing": ("refused", lambda rng, value, _r: rng.choice(["", " ", "null", "{}", "[]", "0", '""', "noop"])),
    "a required field left out": ("refused", without_required),
    "a field of another type": ("refused", with_field(None, 1, True, {"a": 1}, [[1]], [None])),
    "an unknown field": ("refused", lambda rng, value, _required: said({**value, rng.choice(["x", "Summary"]): "s"})),
    "an unknown operation": ("refused", unknown_operation),
    "a field twice": ("refused", lambda _rng, value, _required: said(value)[:-1] + ', "summary": "other"}'),
    "single quotes, Python's words": ("refused", lambda _rng, value, _required: repr(value)),
    "a comma too many": ("refused", lambda _rng, value, _required: said(value)[:-1] + ",}"),
    "a comment": ("refused", lambda _rng, value, _required: "// said\n" + said(value)),
    "NaN, a number too many": (
        "refused",
        lambda rng, v, _r: said({**v, "summary": rng.choice([float("nan"), 10**400])}),
    ),
    "a hundred thousand brackets": ("refused", lambda rng, value, _r: rng.choice("[{") * 100_000),
    "one character changed": ("either", one_character),
}


def replies(count: int = REPLIES, seed: int = 15) -> Iterator[tuple[str, str]]:
    """So many replies, half of them critiques: what was changed, and what was seen."""
    rng, ways = random.Random(seed), [*SPOILED, *["one character changed"] * 6]
    for number in range(count):
        change = ways[number % len(ways)]
        kind = "critique" if rng.random() < 0.5 else "proposal"
        value = CRITIQUE if kind == "critique" else PROPOSAL
        made = SPOILED[change][1](rng, json.loads(said(value)), REQUIRED[kind])
        text, finish = made if isinstance(made, tuple) else (made, "stop")
        yield change, _seen(_read(kind, text, finish), _read(kind, said(value), "stop"))


def _read(kind: str, text: str, finish: str) -> Any:
    return parse_critique(text, finish, 200, 400) if kind == "critique" else parse_proposal(text, finish)


def _seen(found: Any, right: Any) -> str:
    assert not isinstance(right, Rejected)
    if isinstance(found, Rejected):
        assert 0 < len(found.reason) < 500 and "Traceback" not in found.reason
        return "refused"
    return "the same" if found == right else "another one"


def print_table(title: str, seen: Iterator[tuple[str, str]]) -> None:
    counts = Counter(seen)
    print(f"\n| {title:38} | {' | '.join(SEEN)} |\n|---|{'---|' * len(SEEN)}")
    for change in dict.fromkeys(change for change, _ in counts):
        cells = [str(counts[change, name] or "").rjust(len(name)) for name in SEEN]
        print(f"| {change:38} | {' | '.join(cells)} |")
    total = Counter(outcome for _, outcome in counts.elements())
    print(f"| {'all':38} | {' | '.join(str(total[name]).rjust(len(name)) for name in SEEN)} |")


if __name__ == "__main__":
    print_table("a reply of critic or reflector", replies())
